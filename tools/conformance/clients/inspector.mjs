import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** The command line of the official inspector. */
export const eras = ['2025-11-25', '2026-07-28'];

const program = fileURLToPath(new URL('../node_modules/.bin/mcp-inspector', import.meta.url));

export async function visit({ url, headers, tool, args, era }) {
  const HOME = await mkdtemp(join(tmpdir(), 'inspector-')); // where it keeps what it learns
  const given = Object.entries(headers).flatMap(([name, value]) => [
    '--header',
    `${name}: ${value}`,
  ]);
  const always = [
    '--cli',
    url,
    '--transport',
    'http',
    '--format',
    'json',
    '-q',
    '--protocol-era',
    era === '2025-11-25' ? 'legacy' : 'modern',
  ];
  const ask = async (...more) => {
    const { stdout } = await promisify(execFile)(program, [...always, ...given, ...more], {
      env: { ...process.env, HOME },
    });
    return JSON.parse(stdout).result;
  };
  try {
    const { tools } = await ask('--method', 'tools/list');
    const { content } = await ask(
      '--method',
      'tools/call',
      '--tool-name',
      tool,
      '--tool-args-json',
      JSON.stringify(args),
    );
    return { tools: tools.map(({ name }) => name), content };
  } finally {
    await rm(HOME, { recursive: true });
  }
}
