"""How lakectl keeps its settings: `~/.lakectl.yaml`, then the environment. lakegc only reads them.

lakegc's own settings, and what wins over what, are in `lakegc_core.config.settings`. No error here quotes a file's
text: it holds a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from lakegc_core.errors import SettingsError

FILE = ".lakectl.yaml"
ENDPOINT = "LAKECTL_SERVER_ENDPOINT_URL"
ACCESS_KEY = "LAKECTL_CREDENTIALS_ACCESS_KEY_ID"
SECRET_KEY = "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"


@dataclass(frozen=True)
class LakectlSettings:
    """What lakectl would use; an empty string is a thing nobody set."""

    endpoint_url: str = ""
    access_key_id: str = ""
    secret_access_key: str = field(default="", repr=False)


def load_lakectl(env: Mapping[str, str]) -> LakectlSettings:
    """Read lakectl's file in the home folder that `env` names, then its variables, which win.

    A missing file is no error; one that cannot be read as lakectl's form is a SettingsError.
    """
    home = env.get("HOME") or env.get("USERPROFILE")
    file = _read(Path(home) / FILE) if home else LakectlSettings()
    return LakectlSettings(
        endpoint_url=env.get(ENDPOINT) or file.endpoint_url,
        access_key_id=env.get(ACCESS_KEY) or file.access_key_id,
        secret_access_key=env.get(SECRET_KEY) or file.secret_access_key,
    )


def _read(path: Path) -> LakectlSettings:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return LakectlSettings()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read ({type(error).__name__})") from None
    try:
        # BaseLoader keeps every scalar as it is written: a key such as 0123 or 1e5 is a text, not a number.
        document: object = yaml.load(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        # Neither the error nor its text is passed on: it quotes the line, which may be the secret.
        raise SettingsError(f"{path} is not valid YAML{yaml_line(error)}") from None
    server = _section(path, document, "server")
    credentials = _section(path, document, "credentials")
    return LakectlSettings(
        endpoint_url=_scalar(path, server, "endpoint_url"),
        access_key_id=_scalar(path, credentials, "access_key_id"),
        secret_access_key=_scalar(path, credentials, "secret_access_key"),
    )


def yaml_line(error: yaml.YAMLError) -> str:
    """` (line N)` where the error knows it: never the text of that line."""
    mark = getattr(error, "problem_mark", None)
    return f" (line {mark.line + 1})" if mark is not None else ""


def _section(path: Path, document: object, name: str) -> Mapping[str, object]:
    if document is None or document == "":
        return {}
    if not isinstance(document, dict):
        raise SettingsError(f"{path} is not in lakectl's form: `server:` and `credentials:` are expected in it")
    section = document.get(name)
    if section is None or section == "":
        return {}
    if not isinstance(section, dict):
        raise SettingsError(f"{path}: `{name}` must hold keys and values")
    return section


def _scalar(path: Path, section: Mapping[str, object], name: str) -> str:
    value = section.get(name, "")
    if not isinstance(value, str):
        raise SettingsError(f"{path}: `{name}` must be a text")
    return value
