"""The documents people write (YAML or JSON), checked strictly, and the shapes the doors answer with.

parse(raw)                a document -> declared.Schedule, Program, Application, Namespace or Pool; or `Invalid`
files.raw_documents(path) a YAML or JSON file of several documents, checked; faults with their lines
encode.schedule(...)      the way back, normalised
shapes.run(record)        records -> the JSON of REST, `-o json` and World
"""

from tidegate.documents.declared import Application, Declaration, Namespace, Pool, Program, Schedule
from tidegate.documents.parsing import merge_patch, parse, parse_application, parse_arguments, parse_trigger

__all__ = [
    "Application",
    "Declaration",
    "Namespace",
    "Pool",
    "Program",
    "Schedule",
    "merge_patch",
    "parse",
    "parse_application",
    "parse_arguments",
    "parse_trigger",
]
