"""What users import: `from tidegate import App, Run, cron, every, ...` (the package re-exports these names)."""
