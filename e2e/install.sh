#!/usr/bin/env bash
# Fetches and builds what the end-to-end tests need, into e2e/.cache or $E2E_CACHE.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
go run ./e2e/install
