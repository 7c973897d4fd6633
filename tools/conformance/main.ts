/**
 * Runs the official suite against a server of decorated classes and against the sessions of
 * McpToolSource, has clients of others visit the demo, and prints what passes. It needs no network
 * once suite and clients are installed. One scenario runs at a time: the suite by itself starts a
 * process for each client at once.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const folder = fileURLToPath(new URL('../../..', import.meta.url));
const built = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
const suiteOf = (name: string): string => join(folder, 'node_modules', name, 'dist/index.js');
const SUITE = suiteOf('conformance-2026');
/** The suite of the releases, which knows revisions up to 2025-11-25. */
const RELEASED = suiteOf('@modelcontextprotocol/conformance');
const REVISIONS = ['2025-11-25', '2026-07-28'];
/** The clients of others, each a program of its own in `clients`. */
const VISITORS = ['sdk-1', 'sdk-2', 'ai-sdk', 'openai-agents', 'inspector'];

/**
 * One part of the suite: its scenarios that are scored, and those of them that failed, with what
 * they printed.
 */
interface Part {
  readonly title: string;
  readonly scored: readonly string[];
  readonly failed: ReadonlyMap<string, string>;
}

if (![SUITE, RELEASED, join(folder, 'node_modules/.bin/mcp-inspector')].every(existsSync))
  spawnSync('npm', ['ci', '--prefix', folder, '--ignore-scripts'], { stdio: 'inherit' });

const out = ['--output-dir', mkdtempSync(join(tmpdir(), 'conformance-'))];
const { values } = parseArgs({ options: { only: { type: 'string', multiple: true } } });
const isWanted = (half: string): boolean => values.only?.includes(half) ?? true;
const parts = [
  ...(isWanted('server') ? await ofServer() : []),
  ...(isWanted('client') ? REVISIONS.map(ofClient) : []),
  ...(isWanted('visitors') ? await ofVisitors() : []),
];
for (const { failed } of parts)
  for (const [scenario, printed] of failed) process.stdout.write(`== ${scenario}\n${printed}\n`);
console.table(
  parts.map(({ title, scored, failed }) => ({
    part: title,
    scored: scored.length,
    passed: scored.length - failed.size,
  })),
);
process.exitCode =
  parts.length > 0 && parts.every(({ scored, failed }) => scored.length > 0 && failed.size === 0)
    ? 0
    : 1;

async function ofServer(): Promise<readonly Part[]> {
  const server = spawn(process.execPath, [built('server.js')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    // Its name has to be localhost for the scenario of DNS rebinding.
    const asked = [
      'server',
      '--url',
      (await addressOf(server)).replace('127.0.0.1', 'localhost'),
      ...out,
    ];
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

/** Reads the line in which a server says where it is. */
async function addressOf({ stdout }: ChildProcess): Promise<string> {
  if (!stdout) throw new Error('The server has no output.');
  for await (const line of createInterface({ input: stdout })) {
    const [address] = /http:\/\/[\w.:]+(?:\/mcp)?/.exec(line) ?? [];
    if (address !== undefined) return address;
  }
  throw new Error('The server did not start.');
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

/**
 * Has each client of others list the tools of the demo and call one, in each revision that it
 * speaks.
 */
async function ofVisitors(): Promise<readonly Part[]> {
  const env = { ...process.env, PORT: '0' };
  const desk = spawn(process.execPath, [join(folder, '../../dist/main.js')], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const url = `${await addressOf(desk)}/mcp`;
    return VISITORS.map((visitor) => {
      const printed = run([join(folder, 'clients/main.mjs'), visitor, url]);
      const seen = [...printed.matchAll(/^([✓✗]) (.+)$/gm)];
      const failed = seen
        .filter(([, mark]) => mark !== '✓')
        .map(([, , era = '']): [string, string] => [`${visitor}, ${era}`, printed]);
      if (seen.length === 0) failed.push([visitor, printed]);
      return {
        title: `${visitor}, demo`,
        scored: seen.map(([, , era = '']) => era),
        failed: new Map(failed),
      };
    });
  } finally {
    desk.kill();
  }
}

/** Lists the scenarios that a revision requires, as the suite has frozen them. */
function requiredBy(revision: string): Readonly<Record<'server' | 'client', readonly string[]>> {
  const [, server = '', client = ''] = run([SUITE, 'list', '--requirements', revision]).split(
    /^(?:Server|Client) scenarios.*:$/m,
  );
  return { server: namesIn(server), client: namesIn(client.split(/^\S/m)[0] ?? '') };
}

function namesIn(list: string): readonly string[] {
  return [...list.matchAll(/^ {2}- (\S+)$/gm)].map(([, name = '']) => name);
}

/**
 * Reads which scenarios of a server failed: of those that are scored, or of all. One that the
 * output does not name has failed.
 */
function partOf(title: string, printed: string, scored?: readonly string[]): Part {
  const failures = new Map(
    [...printed.matchAll(/^[✓✗] (\S+): \d+ passed, (\d+) failed/gm)].map(
      ([, name = '', failed]) => [name, Number(failed)],
    ),
  );
  const names = scored ?? [...failures.keys()];
  const failed = names.filter((name) => failures.get(name) !== 0);
  return {
    title,
    scored: names,
    failed: new Map(failed.map((name) => [name, outputOf(name, printed)])),
  };
}

function outputOf(scenario: string, printed: string): string {
  const [, rest = ''] = printed.split(`=== Running scenario: ${scenario} ===`);
  return (rest.split('=== Running scenario:')[0] ?? '').trim();
}

function run(args: readonly string[]): string {
  const { stdout, stderr } = spawnSync(process.execPath, args, {
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  });
  return stdout + stderr;
}
