/** Runs the client scenarios of the official suite against the sessions of McpToolSource, and prints what passes. It needs no network once the suite is installed. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const folder = dirname(fileURLToPath(import.meta.url));
const suite = join(folder, 'node_modules/conformance-2026/dist/index.js');
if (!existsSync(suite)) spawnSync('npm', ['ci', '--prefix', folder, '--ignore-scripts'], { stdio: 'inherit' });

const client = `${process.execPath} --conditions=@toolloop/source --import @swc-node/register/esm-register ${join(folder, 'client.ts')}`;
// All scenarios run at once, so that a small machine needs more than the half minute of each.
const options = ['--command', client, '--timeout', '240000', '--output-dir', mkdtempSync(join(tmpdir(), 'conformance-'))];

let hasFailed = false;
for (const revision of ['2025-11-25', '2026-07-28']) {
  const { status, stdout } = spawnSync(process.execPath, [suite, 'client', ...options, '--requirements', revision], { encoding: 'utf8' });
  const lines = stdout.split('\n').filter((line) => /^(?:[✓✗] |Total|Not scored)/.test(line));
  process.stdout.write(
    `Client scenarios of ${revision}: ${status === 0 ? 'all scored ones pass' : 'NOT all scored ones pass'}\n${lines.join('\n')}\n\n`,
  );
  hasFailed ||= status !== 0;
}
process.exitCode = hasFailed ? 1 : 0;
