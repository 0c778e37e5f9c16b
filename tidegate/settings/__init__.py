"""Every setting there is: `tidegate.toml` in the home, overridden by TIDEGATE_SECTION__KEY, overridden by flags.

An unknown section or key is an error that names the nearest one. `python -m tidegate.settings` prints the one table of
all of them, which is docs/reference/settings.md; a test keeps the two equal. Durations are microseconds inside and
ISO 8601 (or `4h`) in the file.
"""

from tidegate.settings.loading import PROBES, SECTIONS, Settings, default_home, load
from tidegate.settings.sections import LogSettings
from tidegate.settings.values import is_loopback

__all__ = ["PROBES", "SECTIONS", "LogSettings", "Settings", "default_home", "is_loopback", "load"]
