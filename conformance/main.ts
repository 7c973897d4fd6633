/**
 * Runs the official suite against a server of decorated classes and against the sessions of McpToolSource, and prints what passes. It needs no network once the suite is
 * installed. One scenario runs at a time: the suite by itself starts a process for each client at once.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('../..', import.meta.url));
const built = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
const suiteOf = (name: string): string => join(folder, 'node_modules', name, 'dist/index.js');
const SUITE = suiteOf('conformance-2026');
/** The suite of the releases, which knows revisions up to 2025-11-25. */
const RELEASED = suiteOf('@modelcontextprotocol/conformance');
const REVISIONS = ['2025-11-25', '2026-07-28'];

/** One part of the suite: its scenarios that are scored, and those of them that failed, with what they printed. */
interface Part {
  readonly title: string;
  readonly scored: readonly string[];
  readonly failed: ReadonlyMap<string, string>;
}

if (![SUITE, RELEASED].every(existsSync)) spawnSync('npm', ['ci', '--prefix', folder, '--ignore-scripts'], { stdio: 'inherit' });

const out = ['--output-dir', mkdtempSync(join(tmpdir(), 'conformance-'))];
const parts = [...(await ofServer()), ...REVISIONS.map(ofClient)];
for (const { failed } of parts) for (const [scenario, printed] of failed) process.stdout.write(`== ${scenario}\n${printed}\n`);
console.table(parts.map(({ title, scored, failed }) => ({ part: title, scored: scored.length, passed: scored.length - failed.size })));
process.exitCode = parts.every(({ scored, failed }) => scored.length > 0 && failed.size === 0) ? 0 : 1;

async function ofServer(): Promise<readonly Part[]> {
  const server = spawn(process.execPath, [built('server.js')], { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const asked = ['server', '--url', await addressOf(server), ...out];
    return [
      ...REVISIONS.map((revision) => {
        const printed = run([SUITE, ...asked, '--requirements', revision]);
        return partOf(`server, ${revision}`, printed, requiredBy(revision).server);
      }),
      partOf('server, 0.1.16', run([RELEASED, ...asked, '--suite', 'all'])),
    ];
  } finally {
    server.kill();
  }
}

/** Reads the line in which the server says where it is; its name has to be localhost for the scenario of DNS rebinding. */
async function addressOf({ stdout }: ChildProcess): Promise<string> {
  if (!stdout) throw new Error('The server has no output.');
  const lines: readonly unknown[] = await once(createInterface({ input: stdout }), 'line');
  return String(lines[0]).replace('127.0.0.1', 'localhost');
}

function ofClient(revision: string): Part {
  const { client: scored } = requiredBy(revision);
  const asked = [
    'client',
    '--command',
    `${process.execPath} ${built('client.js')}`,
    '--spec-version',
    revision,
    '--force',
    '--timeout',
    '60000',
  ];
  const failed = new Map<string, string>();
  for (const scenario of scored) {
    const printed = run([SUITE, ...asked, '--scenario', scenario, ...out]);
    if (!/^Passed: \d+\/\d+, 0 failed/m.test(printed)) failed.set(scenario, printed);
  }
  return { title: `client, ${revision}`, scored, failed };
}

/** Lists the scenarios that a revision requires, as the suite has frozen them. */
function requiredBy(revision: string): Readonly<Record<'server' | 'client', readonly string[]>> {
  const [, server = '', client = ''] = run([SUITE, 'list', '--requirements', revision]).split(/^(?:Server|Client) scenarios.*:$/m);
  return { server: namesIn(server), client: namesIn(client.split(/^\S/m)[0] ?? '') };
}

function namesIn(list: string): readonly string[] {
  return [...list.matchAll(/^ {2}- (\S+)$/gm)].map(([, name = '']) => name);
}

/** Reads which scenarios of a server failed: of those that are scored, or of all. One that the output does not name has failed. */
function partOf(title: string, printed: string, scored?: readonly string[]): Part {
  const failures = new Map(
    [...printed.matchAll(/^[✓✗] (\S+): \d+ passed, (\d+) failed/gm)].map(([, name = '', failed]) => [name, Number(failed)]),
  );
  const names = scored ?? [...failures.keys()];
  const failed = names.filter((name) => failures.get(name) !== 0);
  return { title, scored: names, failed: new Map(failed.map((name) => [name, outputOf(name, printed)])) };
}

function outputOf(scenario: string, printed: string): string {
  const [, rest = ''] = printed.split(`=== Running scenario: ${scenario} ===`);
  return (rest.split('=== Running scenario:')[0] ?? '').trim();
}

function run(args: readonly string[]): string {
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', maxBuffer: 2 ** 28 });
  return stdout + stderr;
}
