"""The few calls of the API that the demo makes, as any client would."""

from collections.abc import Mapping
from typing import Any

import httpx


class DemoApi:
    """Speaks to the API with the token of this start."""

    def __init__(self, url: str, token: str) -> None:
        self._client = httpx.Client(
            base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {token}"}, timeout=30, trust_env=False
        )

    def create_job(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Create a job."""
        return self._ask("POST", "/jobs", json=document)

    def trigger(self, job: str, key: str) -> dict[str, Any]:
        """Ask for a run now; the same key never makes a second one."""
        return self._ask("POST", f"/jobs/{job}/runs", headers={"Idempotency-Key": key}, json={})

    def runs_of(self, job: str) -> list[dict[str, Any]]:
        """List a job's runs, oldest first."""
        runs: list[dict[str, Any]] = self._ask("GET", f"/jobs/{job}/runs")["items"]
        return runs[::-1]

    def run(self, run_id: str) -> dict[str, Any]:
        """Read a run with its attempts."""
        return self._ask("GET", f"/runs/{run_id}")

    def close(self) -> None:
        """End the connections."""
        self._client.close()

    def _ask(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        answer = self._client.request(method, path, **options)
        if answer.is_error:
            raise RuntimeError(f"{method} {path} gave {answer.status_code}: {answer.text}")
        content: dict[str, Any] = answer.json()
        return content
