#!/usr/bin/env node
import { readFileSync, realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { visible } from '@toolloop/core/internal';
import { isRecord } from '@toolloop/protocol';
import { DEFAULT_PINS } from './mcp-tool-source.js';
import { diffPins, listTools, type PinChange, type PinCommand, pinTools, type ServerListing } from './pin-commands.js';
import { endpointOf, type McpClientOptions, type McpServer } from './server-options.js';

/** The text and the exit code of a command: 0 all is as it was pinned, 1 it is not, 2 it could not be told. */
export interface CommandOutcome {
  readonly exitCode: 0 | 1 | 2;
  readonly message: string;
}

const USAGE = [
  'Usage: toolloop-mcp list|diff|pin [server …] [--servers <file>] [--pins <file>] [--token-env <server>=<VARIABLE>] [--connection <id>]',
  '  list         what the servers offer, what is enabled, and how it stands to the pins',
  '  diff         how the enabled tools differ from their pins',
  '  pin          pins the enabled tools as they are offered now, and shows what has changed by that',
  '  --servers    the servers: a JSON file, or a module that exports them [mcp.servers.json]',
  `  --pins       the file of pins [${DEFAULT_PINS}]`,
  '  --token-env  the environment variable with the token for a server; repeat it for others',
  '  --connection the connection whose own pins they are',
].join('\n');

/** Runs `list`, `diff` or `pin` with the arguments of a command line. */
export async function pinCommand(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<CommandOutcome> {
  try {
    const { name, command } = await readCommand(args, environment);
    const started = shownEndpoints(command);
    if (name === 'list')
      return { exitCode: 0, message: [started, ...(await listTools(command)).map((one) => shownListing(one))].join('\n') };
    const changes = await (name === 'pin' ? pinTools(command) : diffPins(command));
    const told = changes.length === 0 ? 'All is as it was pinned.' : changes.map((one) => shownChange(one)).join('\n');
    return { exitCode: name === 'diff' && changes.length > 0 ? 1 : 0, message: `${started}\n${told}` };
  } catch (error) {
    return { exitCode: 2, message: error instanceof Error ? error.message : String(error) };
  }
}

async function readCommand(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<{ name: string; command: PinCommand }> {
  const { values, positionals } = parsed(args);
  const [name, ...only] = positionals;
  if (name !== 'list' && name !== 'diff' && name !== 'pin') throw new Error(USAGE);
  const servers = await readServers(values.servers ?? 'mcp.servers.json');
  const tokens = tokensIn(values['token-env'] ?? [], environment);
  const command = {
    servers,
    pins: values.pins ?? DEFAULT_PINS,
    token: (server: string) => tokens.get(server),
    ...(only.length > 0 && { only }),
    ...(values.connection !== undefined && { connectionId: values.connection }),
  };
  return { name, command };
}

function parsed(args: readonly string[]) {
  const text = { type: 'string' } as const;
  const options = { servers: text, pins: text, connection: text, 'token-env': { ...text, multiple: true } } as const;
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true });
  } catch (error) {
    throw new Error(`${error instanceof Error ? error.message : ''}\n${USAGE}`, { cause: error });
  }
}

/** Reads the servers of a JSON file, or of a module. What is wrong with them is found when they are used. */
async function readServers(path: string): Promise<McpClientOptions['servers']> {
  const file = resolve(path);
  const read: unknown = file.endsWith('.json') ? JSON.parse(readFileSync(file, 'utf8')) : await import(pathToFileURL(file).href);
  const exported = [read, isRecord(read) ? read['default'] : undefined].find((one) => isRecord(one) && isServers(one['servers']));
  if (isRecord(exported) && isServers(exported['servers'])) return exported['servers'];
  throw new Error(`${path} has no object "servers", as McpClientModule.forRoot() takes it.`);
}

function isServers(value: unknown): value is Readonly<Record<string, McpServer>> {
  return isRecord(value);
}

function tokensIn(given: readonly string[], environment: NodeJS.ProcessEnv): ReadonlyMap<string, string> {
  return new Map(
    given.map((one): [string, string] => {
      const [, server, variable] = /^([^=]+)=([^=]+)$/.exec(one) ?? [];
      const token = variable === undefined ? undefined : environment[variable];
      if (server === undefined || !token) throw new Error(`--token-env ${one}: give <server>=<VARIABLE>, with a variable that is set.`);
      return [server, token];
    }),
  );
}

/** Shows what is asked, so that a person sees the exact command before its answer. */
function shownEndpoints({ servers, only = Object.keys(servers) }: PinCommand): string {
  const shown = Object.entries(servers).filter(([name, server]) => only.includes(name) && isRecord(server));
  return shown.map(([name, server]) => `${name}: ${visible(endpointOf(server))}`).join('\n');
}

function shownListing({ server, pinnedEndpoint, tools }: ServerListing): string {
  const moved = pinnedEndpoint === undefined ? [] : [`  pinned at ${visible(pinnedEndpoint)}`];
  return [
    server,
    ...moved,
    ...tools.map(({ state, name, id }) => `  ${state.padEnd(10)} ${visible(name)}${id === undefined ? '' : ` → ${visible(id)}`}`),
  ].join('\n');
}

function shownChange({ server, tool, part, before, after }: PinChange): string {
  return [`${server} ${visible(tool)}: ${part}`, ...signed('-', before), ...signed('+', after)].join('\n');
}

function signed(sign: string, text: string | undefined): string[] {
  return text === undefined ? [] : text.split('\n').map((line) => `  ${sign} ${line}`);
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const { exitCode, message } = await pinCommand(process.argv.slice(2), process.env);
  process.stdout.write(`${message}\n`);
  process.exitCode = exitCode;
}
