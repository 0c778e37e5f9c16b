"""Where events come from outside: Kafka. `opening` makes feeds of documents."""
