import type { OAuthClientProvider } from '@modelcontextprotocol/client';
import { type RunContext, Secret } from '@toolloop/core';
import {
  BOOLEAN,
  defineOptions,
  FUNCTION,
  listOf,
  needed,
  optionsOf,
  type OptionRule,
  whatCan,
  WHOLE_ABOVE_ZERO,
} from '@toolloop/core/internal';
import { type Finding, isRecord } from '@toolloop/protocol';
import type { EgressOptions } from '@toolloop/protocol/egress';
import type { McpTracing } from '../server/server-options.js';

/**
 * A tool of a server that the application enables: its name there, and another one for its id where
 * that one does not fit into an id.
 */
export type AllowedTool = string | { readonly name: string; readonly as: string };

/** The limits of what a server may send, and of how long it may take. */
export interface McpLimits {
  /** The most bytes of one answer, or of one event of a stream. @default 1_048_576 */
  readonly messageBytes: number;
  /** The most pages of a list of tools. @default 8 */
  readonly pages: number;
  /** The milliseconds that connecting and listing may take. @default 10_000 */
  readonly connectMs: number;
  /**
   * The milliseconds for which a list counts. Before the next call after that, the definitions are
   * compared with their pins again. @default 300_000
   */
  readonly freshMs: number;
  /**
   * The most connections at once to a server with a `connectionId`: one for each credential.
   * @default 100
   */
  readonly connections: number;
  /**
   * The milliseconds after which such a connection is closed where no call uses it. @default
   * 300_000
   */
  readonly idleMs: number;
  /**
   * The pause after a failure to connect, in milliseconds; it doubles with every further one, to 60
   * times as long. @default 1_000
   */
  readonly pauseMs: number;
}

export const DEFAULT_MCP_LIMITS: McpLimits = {
  messageBytes: 1_048_576,
  pages: 8,
  connectMs: 10_000,
  freshMs: 300_000,
  connections: 100,
  idleMs: 300_000,
  pauseMs: 1_000,
};

interface AnyServer {
  /**
   * The tools that are enabled, by the names that the server gives them. All others stay disabled,
   * also those that it adds later.
   */
  readonly tools: readonly AllowedTool[];
  /**
   * The connection whose credential the server is sent: the `ConnectionBroker` turns it into one
   * for each call. One connection is kept per credential, and nothing is shared between two. The
   * server is not asked before the first call; until then its tools are what the pins say. @default
   * no credential
   */
  readonly connectionId?: string | ((run: RunContext) => string);
  /** The milliseconds that one call may take. @default the limit `toolCallMs` of the run */
  readonly timeoutMs?: number;
  readonly limits?: Partial<McpLimits>;
}

/** A server that is reached over HTTP. */
export interface McpHttpServer extends AnyServer {
  /** The address of its endpoint; `https:`, but for one in the application's own network. */
  readonly url: string;
  /**
   * True for a server in the application's own network: its host may have an address that is not
   * public, and may be reached over `http:`. @default false
   */
  readonly isPrivate?: boolean;
  /**
   * Further headers of each request. For credentials use `connectionId`; of what stands here all
   * the same, no result, error or log line tells the value. @default none
   */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * Lets tools declare arguments that are copied into headers of the request (`x-mcp-header`).
   * @default false: such tools stay in quarantine
   */
  readonly hasHeaderArguments?: boolean;
  /**
   * Gets tokens from the authorization server without a person, such as the SDK's
   * `ClientCredentialsProvider`. @default none
   */
  readonly authProvider?: OAuthClientProvider;
  /**
   * The hosts beside its own that may be asked for tokens. @default those on the public internet
   */
  readonly egress?: EgressOptions;
}

/**
 * A server that is started as a process, and spoken to over its standard input and output. No shell
 * is involved.
 */
export interface McpStdioServer extends AnyServer {
  /** The program, as it is started: a path, or a name that is looked for in `PATH`. */
  readonly command: string;
  readonly args?: readonly string[];
  /** @default that of the application */
  readonly cwd?: string;
  /** Its environment, beside what `inherit` names. @default nothing */
  readonly env?: Readonly<Record<string, string>>;
  /** The variables that it gets from the application's own environment. @default ['PATH'] */
  readonly inherit?: readonly string[];
  /** The variable in which it finds the credential of its `connectionId`. */
  readonly tokenEnv?: string;
}

/** A server whose tools the application imports. */
export type McpServer = McpHttpServer | McpStdioServer;

/** Options of {@link McpClientModule}. */
export interface McpClientOptions {
  /**
   * The servers by their names, which are part of the ids of their tools:
   * `mcp__github__create_issue`.
   */
  readonly servers: Readonly<Record<string, McpServer>>;
  /** The file of pins. @default 'mcp.pins.json' in the working directory */
  readonly pins?: string;
  /**
   * Carries the trace of each call to its server, such as `mcpTracing` of `@toolloop/telemetry`.
   * @default a server gets only what HTTP carries
   */
  readonly trace?: Pick<McpTracing, 'outgoing'>;
}

/** A server with its name and all of its limits. */
export interface NamedServer {
  readonly name: string;
  readonly options: McpServer;
  readonly limits: McpLimits;
}

export function namedServer(name: string, options: McpServer): NamedServer {
  return {
    name,
    options,
    limits: { ...DEFAULT_MCP_LIMITS, ...LIMITS.sound(options.limits ?? {}) },
  };
}

/** The part of an id before the name of a tool. */
export function prefixOf(server: string): string {
  return `mcp__${server}`;
}

/**
 * The tools that are enabled: the part of their ids behind the prefix, by their names on the
 * server.
 */
export function allowedTools({ tools }: McpServer): ReadonlyMap<string, string> {
  return new Map(tools.map((one) => (typeof one === 'string' ? [one, one] : [one.name, one.as])));
}

/**
 * Writes the way to a server, as a person should read it before it is used: its address, or the
 * exact command.
 */
export function endpointOf(options: McpServer): string {
  if ('url' in options) return new URL(options.url).href;
  return [options.command, ...(options.args ?? [])].map((part) => JSON.stringify(part)).join(' ');
}

const TEXT: OptionRule<string> = {
  wanted: 'a text that is not empty',
  accept: (value) => typeof value === 'string' && value !== '',
};
const TEXTS = listOf(TEXT, 'a list of texts');
const TEXTS_BY_NAME: OptionRule<Readonly<Record<string, string>>> = {
  wanted: 'an object of texts',
  accept: (value) =>
    isRecord(value) && Object.values(value).every((one) => typeof one === 'string'),
};
const ALLOWED: OptionRule<readonly AllowedTool[]> = {
  wanted: "the tools to enable: ['create_issue', { name: 'repos.list', as: 'repos_list' }]",
  accept: (value) =>
    Array.isArray(value) && value.every((one) => TEXT.accept(one) || isRenamed(one)),
};
const HTTP_URL: OptionRule<string> = {
  wanted: 'the address of its endpoint: https://example.com/mcp',
  accept: (value) =>
    typeof value === 'string' && /^https?:$/.test(URL.parse(value)?.protocol ?? ''),
};
const COMMAND: OptionRule<string> = {
  wanted: 'the program alone, and its arguments in `args`: no shell reads it',
  accept: (value) => TEXT.accept(value) && !/[\0\n\r]/.test(String(value)),
};
const PROVIDER: OptionRule<OAuthClientProvider> = {
  wanted: 'an OAuthClientProvider of the SDK',
  accept: isRecord,
};
const EGRESS: OptionRule<EgressOptions> = {
  wanted: 'the options of an EgressGuard',
  accept: isRecord,
};
const CONNECTION: OptionRule<string | ((run: RunContext) => string)> = {
  wanted: 'the id of a connection, or a function of the run that returns it',
  accept: (value) => TEXT.accept(value) || FUNCTION.accept(value),
};

function isRenamed(value: unknown): boolean {
  return (
    isRecord(value) &&
    TEXT.accept(value['name']) &&
    TEXT.accept(value['as']) &&
    Object.keys(value).length === 2
  );
}

const LIMITS = defineOptions<Partial<McpLimits>>({
  messageBytes: WHOLE_ABOVE_ZERO,
  pages: WHOLE_ABOVE_ZERO,
  connectMs: WHOLE_ABOVE_ZERO,
  freshMs: WHOLE_ABOVE_ZERO,
  connections: WHOLE_ABOVE_ZERO,
  idleMs: WHOLE_ABOVE_ZERO,
  pauseMs: WHOLE_ABOVE_ZERO,
});

const SHARED = {
  tools: needed(ALLOWED),
  connectionId: CONNECTION,
  timeoutMs: WHOLE_ABOVE_ZERO,
  limits: optionsOf(LIMITS),
};

const HTTP_SERVER = defineOptions<McpHttpServer>(
  {
    ...SHARED,
    url: needed(HTTP_URL),
    isPrivate: BOOLEAN,
    headers: TEXTS_BY_NAME,
    hasHeaderArguments: BOOLEAN,
    authProvider: PROVIDER,
    egress: EGRESS,
  },
  { together: httpFindings },
);

const STDIO_SERVER = defineOptions<McpStdioServer>(
  {
    ...SHARED,
    command: needed(COMMAND),
    args: listOf(
      { wanted: 'a text', accept: (value) => typeof value === 'string' },
      'a list of texts',
    ),
    cwd: TEXT,
    env: TEXTS_BY_NAME,
    inherit: TEXTS,
    tokenEnv: TEXT,
  },
  { together: stdioFindings },
);

const SERVERS: OptionRule<McpClientOptions['servers']> = {
  wanted: 'an object of servers by their names',
  accept: isRecord,
};
const CLIENT = defineOptions<McpClientOptions>({
  servers: needed(SERVERS),
  pins: TEXT,
  trace: whatCan('outgoing', 'mcpTracing of @toolloop/telemetry'),
});

const SERVER_NAME = /^[a-zA-Z][a-zA-Z0-9-]*(?:_[a-zA-Z0-9-]+)*$/;
const LONGEST_NAME = 27;

/** Finds all that is wrong with the options of the servers. */
export function clientFindings(options: unknown, at = 'McpClientModule'): Finding[] {
  const servers =
    isRecord(options) && isRecord(options['servers']) ? options['servers'] : undefined;
  const whole = CLIENT.findings(options, at);
  return [
    ...whole,
    ...Object.entries(servers ?? {}).flatMap(([name, server]) =>
      serverFindings(name, server, `${at} server "${name}"`),
    ),
  ];
}

function serverFindings(name: string, server: unknown, at: string): Finding[] {
  const isProcess =
    isRecord(server) && Object.hasOwn(server, 'command') && !Object.hasOwn(server, 'url');
  const wrong = isProcess ? STDIO_SERVER.findings(server, at) : HTTP_SERVER.findings(server, at);
  if (SERVER_NAME.test(name) && name.length <= LONGEST_NAME) return wrong;
  const remedy = `Use letters, digits and -, between them single _, ${LONGEST_NAME} characters at most.`;
  return [{ at, problem: 'Its name does not fit into the ids of its tools.', remedy }, ...wrong];
}

/** Names of headers and variables whose values are secrets. */
const SECRET_NAME = /key|token|secret|pass|credential|auth|cookie|session|signature/i;
/** Headers that tell nothing. */
const PLAIN_HEADER = /^(?:accept(?:-.*)?|user-agent|content-type|x-.*version|.*tenant.*)$/i;
/** A shorter value of another name is a word that results may have for reasons of their own. */
const LEAST_CHARACTERS = 12;

/**
 * Returns what a server is sent with each call, or starts with, that its answers must not tell:
 * what is a credential by its name, and further headers that could be one.
 */
export function secretsOf(options: McpServer): readonly Secret<string>[] {
  const values = 'url' in options ? secretHeaders(options.headers) : secretVariables(options.env);
  // of `Key abc` a server may tell `abc`
  const parts = values.flatMap((value) =>
    value.split(/\s+/).filter((part) => part.length >= LEAST_CHARACTERS),
  );
  return [...new Set([...values, ...parts])].map((value) => new Secret(value));
}

function secretHeaders(headers: McpHttpServer['headers'] = {}): readonly string[] {
  return Object.entries(headers).flatMap(([name, value]) => {
    const mayBeSecret = !PLAIN_HEADER.test(name) && value.length >= LEAST_CHARACTERS;
    return SECRET_NAME.test(name) || mayBeSecret ? value : [];
  });
}

function secretVariables(env: McpStdioServer['env'] = {}): readonly string[] {
  return Object.entries(env).flatMap(([name, value]) => (SECRET_NAME.test(name) ? value : []));
}

function sharedFindings(
  {
    tools = [],
    connectionId,
    authProvider,
  }: Partial<AnyServer> & Pick<McpHttpServer, 'authProvider'>,
  at: string,
): Finding[] {
  const ids = [...tools].map((one) => (typeof one === 'string' ? one : one.as));
  const twice = ids.find((id, index) => ids.indexOf(id) !== index);
  return [
    ...(twice === undefined
      ? []
      : [
          {
            at,
            problem: `Two of its tools are called "${twice}".`,
            remedy: 'Give one another name: { name, as }.',
          },
        ]),
    ...(connectionId === undefined || authProvider === undefined
      ? []
      : [
          {
            at,
            problem: 'It has a connectionId and an authProvider.',
            remedy: 'Give one of them: both are credentials.',
          },
        ]),
  ];
}

function httpFindings(server: Partial<McpHttpServer>, at: string): Finding[] {
  const { url, isPrivate = false, headers = {} } = server;
  const { protocol, username, hash } = new URL(url ?? 'https://none');
  const findings = sharedFindings(server, at);
  if (protocol === 'http:' && !isPrivate)
    findings.push({
      at,
      problem: 'Its address begins with http:.',
      remedy: 'Use https:, or set isPrivate for a server in your own network.',
    });
  if (username !== '' || hash !== '')
    findings.push({
      at,
      problem: 'Its address has a user name or a fragment.',
      remedy: 'Leave it out, and use connectionId for credentials.',
    });
  if (Object.keys(headers).some((name) => /^(?:authorization|cookie|mcp-.*)$/i.test(name)))
    findings.push({
      at,
      problem: 'Its headers hold a credential, or one that belongs to MCP.',
      remedy: 'Use connectionId for credentials.',
    });
  return findings;
}

function stdioFindings(server: Partial<McpStdioServer>, at: string): Finding[] {
  const { command = '', args = [], connectionId, tokenEnv } = server;
  const findings = sharedFindings(server, at);
  if (args.length === 0 && /\s/.test(command) && !command.includes('/'))
    findings.push({
      at,
      problem: `Its command "${command.trim().split(/\s/)[0] ?? ''} …" has spaces.`,
      remedy: 'Give the program in command and the rest in args.',
    });
  if ((connectionId === undefined) !== (tokenEnv === undefined))
    findings.push({
      at,
      problem: 'It has one of connectionId and tokenEnv.',
      remedy: 'Give both, or none: the credential is handed over in that variable.',
    });
  return findings;
}
