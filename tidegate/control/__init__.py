"""What people ask for: one file per subject, over the ControlStore port. Framework-free; `who` goes into the audit log.

schedules     put, delete, enable, disable, get, page, revisions, stats
programs      put, delete, get, page
applications  deploy (also as a plan), delete, get, page
namespaces    put, delete, get, page          pools    put, delete, get, page
runs          trigger, cancel, rerun, get, page, queue
preview       of_schedule, of_trigger         explain  of_schedule, of_run
apply         apply, diff                     audit    audit
"""
