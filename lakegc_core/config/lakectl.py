"""How lakectl keeps its settings: `~/.lakectl.yaml`, then the environment. lakegc only reads them.

lakegc's own settings, and what wins over what, are in `lakegc_core.config.settings`. No error here quotes a file's
text: it holds a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from pydantic import BaseModel, Field

from lakegc_core.config import strict_yaml

FILE = ".lakectl.yaml"
ENDPOINT = "LAKECTL_SERVER_ENDPOINT_URL"
ACCESS_KEY = "LAKECTL_CREDENTIALS_ACCESS_KEY_ID"
SECRET_KEY = "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"


class _Server(BaseModel):
    endpoint_url: str = ""


class _Credentials(BaseModel):
    access_key_id: str = ""
    secret_access_key: str = Field(default="", repr=False)


class _LakectlYaml(BaseModel):
    """The part of lakectl's file that lakegc reads: `server:` and `credentials:`."""

    server: _Server = _Server()
    credentials: _Credentials = _Credentials()


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
    home, file = env.get("HOME") or env.get("USERPROFILE"), _LakectlYaml()
    if home:
        with suppress(FileNotFoundError):
            # BaseLoader keeps every scalar as it is written: a key such as 0123 or 1e5 is a text, not a number.
            file = strict_yaml.load(Path(home) / FILE, _LakectlYaml, yaml.BaseLoader)
    return LakectlSettings(
        endpoint_url=env.get(ENDPOINT) or file.server.endpoint_url,
        access_key_id=env.get(ACCESS_KEY) or file.credentials.access_key_id,
        secret_access_key=env.get(SECRET_KEY) or file.credentials.secret_access_key,
    )
