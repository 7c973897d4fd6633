import { ConfigurationError, visible } from '@toolloop/protocol';
import { DEFAULT_PINS } from './mcp-tool-source.js';
import { McpSession } from './mcp-session.js';
import type { OfferedTools, Problem } from './offered-tools.js';
import { cutList, headerProblem, nameProblem } from './quarantine-reasons.js';
import {
  allowedTools,
  clientFindings,
  endpointOf,
  type McpServer,
  type NamedServer,
  namedServer,
  prefixOf,
} from './server-options.js';
import { hashOf, PinFile, type ToolDefinition } from './tool-pins.js';

/** The servers that a command looks at, and the file of pins. */
export interface PinCommand {
  readonly servers: Readonly<Record<string, McpServer>>;
  /** The file of pins. @default 'mcp.pins.json' */
  readonly pins?: string;
  /** The names of the servers that are looked at. @default all */
  readonly only?: readonly string[];
  /**
   * The connection whose pins they are, for a server that shows other tools to each. @default the
   * `connectionId` of the server, where that is an id
   */
  readonly connectionId?: string;
  /** Returns the token with which a server is asked. @default none */
  readonly token?: (server: string) => string | undefined;
}

/**
 * A tool as it stands between what a server offers, what the application enables and what is
 * pinned.
 */
export interface ToolListing {
  readonly name: string;
  /** The id under which it is in the catalog. Absent where the application does not enable it. */
  readonly id?: string;
  /**
   * `enabled`: as it was pinned. `discovered`: not enabled by the application. `unpinned`,
   * `changed` and `gone`: in quarantine, as the state says. `quarantined`: in quarantine for the
   * `reason`, such as a definition that cannot be read, so that no pin helps.
   */
  readonly state: 'enabled' | 'discovered' | 'unpinned' | 'changed' | 'gone' | 'quarantined';
  /** The reason for the state `quarantined`, and the remedy. */
  readonly reason?: string;
  readonly offered?: ToolDefinition;
  readonly pinned?: ToolDefinition;
}

/** A server and its tools. */
export interface ServerListing {
  readonly server: string;
  /** Its address, or the exact command by which it is started. */
  readonly endpoint: string;
  /** Set where the pins were made for another address or command. */
  readonly pinnedEndpoint?: string;
  readonly tools: readonly ToolListing[];
}

/** A difference between a pinned definition and the one that is offered. */
export interface PinChange {
  readonly server: string;
  readonly tool: string;
  /** The part that differs, such as `description`; `endpoint` for the way to the server. */
  readonly part: string;
  /**
   * Texts in which characters that are not seen are escapes; absent where there was, or is, none.
   */
  readonly before?: string;
  readonly after?: string;
}

const ASK_MS = 30_000;

/**
 * Asks the servers for their tools, and compares them with what is enabled and what is pinned. It
 * changes nothing.
 *
 * @throws {ConfigurationError} For wrong options, and for a server that the options do not name.
 */
export async function listTools(command: PinCommand): Promise<readonly ServerListing[]> {
  const file = PinFile.read(command.pins ?? DEFAULT_PINS);
  const listings: ServerListing[] = [];
  for (const server of chosen(command)) listings.push(await listing(server, command, file));
  return listings;
}

/**
 * Pins the definitions of the enabled tools as the servers offer them now, and returns what has
 * changed by that. A person has to read it.
 *
 * @throws {ConfigurationError} For wrong options, and for a server that the options do not name.
 */
export async function pinTools(command: PinCommand): Promise<readonly PinChange[]> {
  const listings = await listTools(command);
  const known = PinFile.read(command.pins ?? DEFAULT_PINS);
  const file = listings.reduce((pinned, { server, endpoint, tools }) => {
    const kept = tools.flatMap(({ name, id, offered }) =>
      id !== undefined && offered
        ? [[name, { hash: hashOf(offered), definition: offered }] as const]
        : [],
    );
    return pinned.with(server, connectionOf(server, command), {
      endpoint,
      tools: Object.fromEntries(kept),
    });
  }, known);
  file.write(command.pins ?? DEFAULT_PINS);
  return listings.flatMap((one) => changesOf(one));
}

/**
 * Returns how the enabled tools differ from their pins, part by part. @throws {ConfigurationError}
 * For wrong options, and for a server that the options do not name.
 */
export async function diffPins(command: PinCommand): Promise<readonly PinChange[]> {
  const listings = await listTools(command);
  return listings.flatMap((one) => changesOf(one));
}

function chosen({ servers, only = Object.keys(servers) }: PinCommand): readonly NamedServer[] {
  const unknown = only.filter((name) => !Object.hasOwn(servers, name));
  const findings = [
    ...clientFindings({ servers }, 'toolloop mcp'),
    ...unknown.map((name) => ({
      at: 'toolloop mcp',
      problem: `There is no server "${name}".`,
      remedy: `There are: ${Object.keys(servers).join(', ')}.`,
    })),
  ];
  if (findings.length > 0) throw new ConfigurationError(findings);
  return Object.entries(servers).flatMap(([name, options]) =>
    only.includes(name) ? [namedServer(name, options)] : [],
  );
}

function connectionOf(server: string, { servers, connectionId }: PinCommand): string | undefined {
  const own = servers[server]?.connectionId;
  return connectionId ?? (typeof own === 'string' ? own : undefined);
}

async function listing(
  server: NamedServer,
  command: PinCommand,
  file: PinFile,
): Promise<ServerListing> {
  const { name, options } = server;
  const set = file.of(name, connectionOf(name, command));
  const endpoint = endpointOf(options);
  const offered = await offeredBy(server, command.token?.(name));
  const allowed = allowedTools(options);
  const names = [...new Set([...offered.tools.keys(), ...allowed.keys()])].toSorted();
  const tools = names.map((tool) =>
    toolListing(tool, {
      server,
      list: offered,
      shown: allowed.get(tool),
      pinned: set?.tools[tool]?.definition,
    }),
  );
  return {
    server: name,
    endpoint,
    ...(set && set.endpoint !== endpoint && { pinnedEndpoint: set.endpoint }),
    tools,
  };
}

interface ComparedTool {
  readonly server: NamedServer;
  readonly list: OfferedTools;
  /** The end of its id, if the application enables it. */
  readonly shown: string | undefined;
  readonly pinned: ToolDefinition | undefined;
}

function toolListing(tool: string, compared: ComparedTool): ToolListing {
  const { server, list, shown, pinned } = compared;
  const id = shown === undefined ? {} : { id: idOf(server, shown) };
  const given = list.tools.get(tool);
  const offered = given && 'definition' in given ? given.definition : undefined;
  const state = stateOf(tool, offered, compared);
  return { name: tool, ...id, ...state, ...(offered && { offered }), ...(pinned && { pinned }) };
}

function idOf({ name }: NamedServer, shown: string): string {
  return `${prefixOf(name)}__${shown}`;
}

function stateOf(
  tool: string,
  offered: ToolDefinition | undefined,
  compared: ComparedTool,
): Pick<ToolListing, 'state' | 'reason'> {
  const problem = problemWith(tool, offered, compared);
  if (problem) return { state: 'quarantined', reason: `${problem.problem} ${problem.remedy}` };
  const { shown, pinned } = compared;
  if (shown === undefined) return { state: 'discovered' };
  if (!offered) return { state: 'gone' };
  if (!pinned) return { state: 'unpinned' };
  return { state: hashOf(offered) === hashOf(pinned) ? 'enabled' : 'changed' };
}

/** Finds the reason for which a tool cannot be used, whatever is pinned. */
function problemWith(
  tool: string,
  offered: ToolDefinition | undefined,
  { server, list, shown }: ComparedTool,
): Problem | undefined {
  const given = list.tools.get(tool);
  if (given && 'problem' in given) return given.problem;
  if (shown === undefined) return undefined;
  const named = nameProblem(shown, idOf(server, shown));
  if (named) return named;
  if (!offered) return list.isCut ? cutList(server) : undefined;
  return headerProblem(offered, server.options);
}

async function offeredBy(server: NamedServer, token: string | undefined): Promise<OfferedTools> {
  const ending = new AbortController();
  const signal = AbortSignal.any([ending.signal, AbortSignal.timeout(ASK_MS)]);
  const use = {
    ...(token !== undefined && { token: () => token }),
    fail: (error: Error) => ending.abort(error),
  };
  const session = await McpSession.open(server, { use, signal, onChange: () => undefined }).catch(
    (error: unknown) => {
      throw new Error(
        `The server "${server.name}" cannot be reached: ${error instanceof Error ? error.message : ''}`,
        { cause: error },
      );
    },
  );
  try {
    return await session.list(use, signal);
  } finally {
    await session.close();
  }
}

function changesOf({ server, endpoint, pinnedEndpoint, tools }: ServerListing): PinChange[] {
  const moved =
    pinnedEndpoint === undefined
      ? []
      : [{ server, tool: '*', part: 'endpoint', before: pinnedEndpoint, after: endpoint }];
  return [
    ...moved,
    ...tools.flatMap(({ name, id, offered, pinned }) =>
      id === undefined ? [] : partsOf(pinned, offered, { server, tool: name }),
    ),
  ];
}

const PARTS = ['title', 'description', 'inputSchema', 'outputSchema', 'annotations'] as const;

function partsOf(
  pinned: ToolDefinition | undefined,
  offered: ToolDefinition | undefined,
  place: Pick<PinChange, 'server' | 'tool'>,
): PinChange[] {
  return PARTS.flatMap((part) => {
    const [before, after] = [pinned?.[part], offered?.[part]].map((value) =>
      value === undefined ? undefined : shownValue(value),
    );
    if (before === after) return [];
    return [
      {
        ...place,
        part,
        ...(before !== undefined && { before }),
        ...(after !== undefined && { after }),
      },
    ];
  });
}

function shownValue(value: unknown): string {
  return visible(typeof value === 'string' ? value : JSON.stringify(value, undefined, 2));
}
