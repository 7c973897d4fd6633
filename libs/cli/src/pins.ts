import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isRecord } from '@toolloop/protocol';
import type { McpServer, PinChange, PinCommand, ServerListing } from '@toolloop/mcp';
import { packageNear } from './application.js';
import { type Answer, CommandError, lineOf, shown } from './output.js';

/** The options of the commands about pins. */
export interface PinOptions {
  readonly servers: string;
  readonly pins?: string;
  readonly connection?: string;
  readonly tokenEnv?: readonly string[];
}

type McpPackage = typeof import('@toolloop/mcp');

/**
 * Shows what is asked of whom, before it is: a person has to see the exact command that is started.
 */
export type Announce = (line: string) => void;

/** Lists what the servers offer, what is enabled, and how it stands to the pins. */
export async function listed(
  servers: readonly string[],
  options: PinOptions,
  announce: Announce,
): Promise<Answer> {
  const { mcp, command } = await prepared(servers, options, announce);
  const value = await mcp.listTools(command);
  return { value, text: value.map(listingText).join('\n') };
}

/** Shows how the enabled tools differ from their pins; exits with 1 if they do. */
export async function compared(
  servers: readonly string[],
  options: PinOptions,
  announce: Announce,
): Promise<Answer> {
  const { mcp, command } = await prepared(servers, options, announce);
  const value = await mcp.diffPins(command);
  return { value, text: changesText(value), exitCode: value.length > 0 ? 1 : 0 };
}

/** Pins the enabled tools as they are offered now, and shows what has changed by that. */
export async function pinned(
  servers: readonly string[],
  options: PinOptions,
  announce: Announce,
): Promise<Answer> {
  const { mcp, command } = await prepared(servers, options, announce);
  const value = await mcp.pinTools(command);
  return { value, text: changesText(value) };
}

async function prepared(
  only: readonly string[],
  { servers: path, pins, connection, tokenEnv = [] }: PinOptions,
  announce: Announce,
): Promise<{ readonly mcp: McpPackage; readonly command: PinCommand }> {
  const servers = await serversIn(path);
  const tokens = tokensIn(tokenEnv);
  const mcp = await packageNear<McpPackage>('@toolloop/mcp', path);
  const asked = Object.entries(servers).filter(
    ([name]) => only.length === 0 || only.includes(name),
  );
  for (const [name, server] of asked)
    if (isRecord(server)) announce(`${name}: ${lineOf(mcp.endpointOf(server))}`);
  const command = {
    servers,
    token: (server: string) => tokens.get(server),
    ...(only.length > 0 && { only }),
    ...(pins !== undefined && { pins }),
    ...(connection !== undefined && { connectionId: connection }),
  };
  return { mcp, command };
}

/**
 * Reads the servers of a JSON file, or of a module. What is wrong with them is found when they are
 * used.
 */
async function serversIn(path: string): Promise<Readonly<Record<string, McpServer>>> {
  const read = await contentOf(path);
  const exported = [read, isRecord(read) ? read['default'] : undefined].find(
    (one) => isRecord(one) && isServers(one['servers']),
  );
  if (isRecord(exported) && isServers(exported['servers'])) return exported['servers'];
  throw new CommandError(`${path} has no object "servers", as McpClientModule.forRoot() takes it.`);
}

async function contentOf(path: string): Promise<unknown> {
  const file = resolve(path);
  if (!existsSync(file))
    throw new CommandError(
      `There is no file ${path}, which would name the servers. Name another one, JSON or a module: --servers mcp.json`,
    );
  try {
    return file.endsWith('.json')
      ? JSON.parse(readFileSync(file, 'utf8'))
      : await import(pathToFileURL(file).href);
  } catch (error) {
    const message = error instanceof Error ? lineOf(error.message) : '';
    throw new CommandError(
      `The servers cannot be read from ${path}: ${message}. Name a JSON file or a module: --servers mcp.servers.json`,
    );
  }
}

function isServers(value: unknown): value is Readonly<Record<string, McpServer>> {
  return isRecord(value);
}

function tokensIn(given: readonly string[]): ReadonlyMap<string, string> {
  return new Map(
    given.map((one): [string, string] => {
      const [, server, variable] = /^([^=]+)=([^=]+)$/.exec(one) ?? [];
      const token = variable === undefined ? undefined : process.env[variable];
      if (server === undefined || !token)
        throw new CommandError(
          `--token-env ${one}: give <server>=<VARIABLE>, with a variable that is set.`,
        );
      return [server, token];
    }),
  );
}

function listingText({ server, pinnedEndpoint, tools }: ServerListing): string {
  const moved = pinnedEndpoint === undefined ? [] : [`  pinned at ${lineOf(pinnedEndpoint)}`];
  return [server, ...moved, ...tools.map(toolText)].join('\n');
}

function toolText({ state, name, id, reason }: ServerListing['tools'][number]): string {
  const shownAs = id === undefined ? '' : ` → ${lineOf(id)}`;
  return `  ${state.padEnd(11)} ${lineOf(name)}${shownAs}${reason === undefined ? '' : `: ${lineOf(reason)}`}`;
}

function changesText(changes: readonly PinChange[]): string {
  return changes.length === 0 ? 'All is as it was pinned.' : changes.map(changeText).join('\n');
}

function changeText({ server, tool, part, before, after }: PinChange): string {
  return [`${server} ${lineOf(tool)}: ${part}`, ...signed('-', before), ...signed('+', after)].join(
    '\n',
  );
}

function signed(sign: string, text: string | undefined): string[] {
  return text === undefined
    ? []
    : shown(text)
        .split('\n')
        .map((line) => `  ${sign} ${line}`);
}
