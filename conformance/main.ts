/** Runs the official suite against a server of decorated classes and against the sessions of McpToolSource, and prints what passes. It needs no network once the suite is installed. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const folder = dirname(fileURLToPath(import.meta.url));
const suiteOf = (name: string): string => join(folder, 'node_modules', name, 'dist/index.js');
const SUITE = suiteOf('conformance-2026');
/** The suite of the releases, which knows revisions up to 2025-11-25. */
const RELEASED = suiteOf('@modelcontextprotocol/conformance');
const REVISIONS = ['2025-11-25', '2026-07-28'];
const RUN = ['--conditions=@toolloop/source', '--import', '@swc-node/register/esm-register'];

if (![SUITE, RELEASED].every(existsSync)) spawnSync('npm', ['ci', '--prefix', folder, '--ignore-scripts'], { stdio: 'inherit' });

const out = ['--output-dir', mkdtempSync(join(tmpdir(), 'conformance-'))];
const server = spawn(process.execPath, [...RUN, join(folder, 'server.ts')], { stdio: ['ignore', 'pipe', 'inherit'] });
const passed: boolean[] = [];
try {
  const url = await addressOf(server);
  for (const revision of REVISIONS)
    passed.push(report(`Server, revision ${revision}`, [SUITE, 'server', '--url', url, '--requirements', revision, ...out]));
  passed.push(report('Server, suite of 0.1.16', [RELEASED, 'server', '--url', url, '--suite', 'all', ...out]));
} finally {
  server.kill();
}
const client = [process.execPath, ...RUN, join(folder, 'client.ts')].join(' ');
for (const revision of REVISIONS)
  // All scenarios run at once, so that a small machine needs more than the half minute of each.
  passed.push(
    report(`Client, revision ${revision}`, [
      SUITE,
      'client',
      '--command',
      client,
      '--timeout',
      '240000',
      '--requirements',
      revision,
      ...out,
    ]),
  );
process.exitCode = passed.every(Boolean) ? 0 : 1;

/** Reads the line in which the server says where it is; its name has to be localhost for the scenario of DNS rebinding. */
async function addressOf({ stdout }: ChildProcess): Promise<string> {
  if (!stdout) throw new Error('The server has no output.');
  const lines: readonly unknown[] = await once(createInterface({ input: stdout }), 'line');
  return String(lines[0]).replace('127.0.0.1', 'localhost');
}

/** Runs one part of the suite and prints its figures, and all of its output where it failed. Returns whether all that is scored has passed. */
function report(title: string, args: readonly string[]): boolean {
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8', maxBuffer: 2 ** 28 });
  const lines = stdout.split('\n').filter((line) => /^(?:[✓✗] |Total|Not scored|Scored)/.test(line));
  process.stdout.write(
    `${title}: ${status === 0 ? 'all scored scenarios pass' : 'NOT all scored scenarios pass'}\n${lines.join('\n')}\n\n`,
  );
  return status === 0;
}
