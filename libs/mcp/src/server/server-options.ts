import { type ToolCatalog, toolLoopToken } from '@toolloop/core';
import type { SessionRequest } from '@toolloop/core/contracts';
import { defineOptions, nearestName, type OptionRule } from '@toolloop/core/internal';
import type { Respondent } from '@toolloop/core/loop';
import type { ApprovalRequest, Finding } from '@toolloop/protocol';

/** A caller as its token describes it: whom its calls act for, and what the token is good for. */
export interface McpPrincipal<Actor = unknown> {
  readonly actor: Actor;
  readonly tenant: string;
  /** The OAuth scopes of the token. @default none */
  readonly scopes?: readonly string[];
  /**
   * The resource that the token was issued for, usually its `aud`. Needed where `resource` is set:
   * a token for another server is refused.
   */
  readonly audience?: string;
  /**
   * `true` where a person answers for what the client says, such as with a token that only a client
   * under that person's eyes gets. Then an approval that the person may give is asked for in the
   * client itself. @default false: a client could answer by itself
   */
  readonly isPerson?: boolean;
  /** The end of the token's life. @default the verifier says with each request that it is valid */
  readonly expiresAt?: Date;
}

/**
 * Tells whom a bearer token speaks for.
 *
 * @example
 * const verifier: McpVerifier<User> = {
 *   async verify(token) {
 *     const user = await users.ofToken(token);
 *     return user && { actor: user, tenant: user.tenantId };
 *   },
 * };
 */
export interface McpVerifier<Actor = unknown> {
  /** Returns the principal of a token, undefined for one that is unknown, revoked or expired. */
  verify(token: string): McpPrincipal<Actor> | undefined | Promise<McpPrincipal<Actor> | undefined>;
}

/**
 * The protected resource that clients are told about, so that they find out where to get a token.
 */
export interface McpResource {
  /**
   * The public URL of the server: `https://api.example.com/mcp`. Tokens must have been issued for
   * it.
   */
  readonly url: string;
  /** The URLs of the authorization servers whose tokens the verifier knows. */
  readonly authorizationServers: readonly string[];
}

/** The options of a session that a client opens, beside the actor and the tenant of its token. */
export type McpSessionTerms = Pick<
  SessionRequest,
  | 'context'
  | 'tools'
  | 'exclude'
  | 'policy'
  | 'limits'
  | 'injection'
  | 'surface'
  | 'hooks'
  | 'labels'
>;

/** The visit of a person to the page on which a call is approved. */
export interface ApprovalVisit {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /**
   * The password or token that the person has typed on the page, which asks for one where the
   * headers identify no person.
   */
  readonly credential?: string;
}

/** The options of {@link McpServerModule}. */
export interface McpServerOptions<Actor = unknown> {
  readonly verifier: McpVerifier<Actor>;
  /**
   * The principal of requests without a token. Only for a server that answers on loopback names
   * alone. @default such requests are answered 401
   */
  readonly anonymous?: McpPrincipal<Actor>;
  /** The scopes that every token must have. @default none */
  readonly requiredScopes?: readonly string[];
  /**
   * @default clients are told of no authorization server, and the audience of a token is not
   *   checked
   */
  readonly resource?: McpResource;
  /**
   * The names, without a port, under which the server answers. @default localhost, 127.0.0.1 and
   * [::1]
   */
  readonly hosts?: readonly string[];
  /**
   * The names, without scheme and port, of the web pages that may ask. @default those of `hosts`
   */
  readonly origins?: readonly string[];
  /** The name that clients are told. @default 'toolloop' */
  readonly name?: string;
  /** The version that clients are told. @default '0.0.0' */
  readonly version?: string;
  /** The words by which clients learn what the server is for. Every caller can read them. */
  readonly instructions?: string;
  /**
   * The names under which clients know tools, by their ids: `{ crm__search: 'search_customers' }`.
   * Tools of entities keep their ids, as do those that are left out.
   * @default each tool's id
   */
  readonly names?: Readonly<Record<string, string>>;
  /**
   * The pages that clients may show beside what tools return (MCP Apps), by the ids of the tools:
   * `{ orders__findOrder: 'ui://orders/card' }`. Each is the address of an `@LlmResource`, which
   * policy has to allow as any other.
   * @default none
   */
  readonly ui?: Readonly<Record<string, string>>;
  /** The name of the loop whose tools and policy are served. @default the application's own */
  readonly loop?: string;
  /**
   * Returns the address at which a person of the application answers an approval. @default the page
   * that `approver` identifies people for
   */
  readonly approvalUrl?: (pending: ApprovalRequest) => string;
  /**
   * Identifies the people who visit the module's own page for approvals, `mcp/approve/:id`, by the
   * application's own means: a cookie, or what they type. It must not take the tokens of MCP
   * clients, since a client would then approve its own calls. @default there is no page
   */
  readonly approver?: (
    visit: ApprovalVisit,
  ) => Respondent<Actor> | undefined | Promise<Respondent<Actor> | undefined>;
  /**
   * The key of what clients keep between two rounds of one call, 32 bytes or more, the same in all
   * processes. @default one of this process
   */
  readonly stateKey?: string;
  /**
   * Continues the trace that the `_meta` of a request names, such as `mcpTracing` of
   * `@toolloop/telemetry`. @default its calls are traces of their own, or of the HTTP request
   */
  readonly trace?: Pick<McpTracing, 'incoming'>;
  /**
   * Vouches for a client by its identity: returns the reason why nothing that it sends can come
   * from elsewhere, such as a job of your own that reads this application alone. It is in the audit
   * with each of its calls. Of such a client counts what it has read here; any other may have read
   * anything, so that what changes something is asked about as after untrusted content. Asked when
   * a session is opened. Not for an assistant that has other servers, or the web.
   * @default no client is vouched for
   * @example
   * const vouchFor = ({ actor }: McpPrincipal<User>) =>
   *   actor.id === 'nightly-export' ? 'Our own job, which reads nothing else.' : undefined;
   */
  readonly vouchFor?: (principal: McpPrincipal<Actor>) => string | undefined;
  /** Narrows what a caller may do, as options of its session. */
  readonly session?: (principal: McpPrincipal<Actor>) => McpSessionTerms;
}

/** Carries the trace of a request in its `_meta`. */
export interface McpTracing {
  /** Returns the fields for a request that is sent now. */
  outgoing(): Readonly<Record<string, string>>;
  /**
   * Does the work of a request within the trace that its fields name; they come from the other side
   * as they are.
   */
  incoming<Result>(meta: Readonly<Record<string, unknown>>, work: () => Result): Result;
}

const LOOPBACK: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];

/** The names under which a server with these options answers, and those of pages that may ask. */
export function namesOf({
  hosts = LOOPBACK,
  origins = hosts,
}: Pick<McpServerOptions, 'hosts' | 'origins'>): {
  hosts: string[];
  origins: string[];
} {
  return { hosts: [...hosts], origins: [...origins] };
}

const TEXT: OptionRule<string> = {
  wanted: 'a text that is not empty',
  accept: (value) => typeof value === 'string' && value !== '',
};
const TEXTS: OptionRule<readonly string[]> = {
  wanted: 'a list of texts',
  accept: (value) => Array.isArray(value) && value.every((one) => TEXT.accept(one)),
};
const HOST_NAMES: OptionRule<readonly string[]> = {
  wanted: "a list of names without scheme and port: ['api.example.com']",
  accept: (value) =>
    TEXTS.accept(value) &&
    Array.isArray(value) &&
    value.every((name) => !/[/\s]|:\d+$/.test(String(name))),
};
const TOOL_NAME = /^[A-Za-z0-9_.-]{1,64}$/;
const TOOL_NAMES: OptionRule<Readonly<Record<string, string>>> = {
  wanted: "an object of names by ids, each another: { crm__search: 'search_customers' }",
  accept: (value) => {
    const names =
      typeof value === 'object' && value !== null
        ? Object.values<unknown>({ ...value })
        : [undefined];
    return (
      new Set(names).size === names.length &&
      names.every((name) => typeof name === 'string' && TOOL_NAME.test(name))
    );
  },
};
const UI: OptionRule<Readonly<Record<string, string>>> = {
  wanted: "an object of addresses by ids: { orders__findOrder: 'ui://orders/card' }",
  accept: (value) =>
    typeof value === 'object' &&
    value !== null &&
    Object.values<unknown>({ ...value }).every(
      (uri) => typeof uri === 'string' && uri.startsWith('ui:'),
    ),
};
const FUNCTION: OptionRule<(...args: never[]) => unknown> = {
  wanted: 'a function',
  accept: (value) => typeof value === 'function',
};
const VERIFIER: OptionRule<McpVerifier> = {
  wanted: 'an object with verify(token), which returns the actor and the tenant of the token',
  isNeeded: true,
  accept: (value) =>
    typeof value === 'object' &&
    value !== null &&
    typeof Reflect.get(value, 'verify') === 'function',
};
const PRINCIPAL: OptionRule<McpPrincipal> = {
  wanted: '{ actor, tenant }',
  accept: (value) =>
    typeof value === 'object' &&
    value !== null &&
    Reflect.has(value, 'actor') &&
    TEXT.accept(Reflect.get(value, 'tenant')),
};
const TRACING: OptionRule<Pick<McpTracing, 'incoming'>> = {
  wanted: 'what continues a trace, such as mcpTracing of @toolloop/telemetry',
  accept: (value) =>
    typeof value === 'object' &&
    value !== null &&
    typeof Reflect.get(value, 'incoming') === 'function',
};
const KEY: OptionRule<string> = {
  wanted: 'a text of 32 bytes or more',
  accept: (value) => typeof value === 'string' && Buffer.byteLength(value) >= 32,
  problem: () => 'The stateKey is no text of 32 bytes or more.',
};
const RESOURCE: OptionRule<McpResource> = {
  wanted: '{ url, authorizationServers }, whose URLs begin with https: (or http: on loopback)',
  accept: (value) =>
    typeof value === 'object' &&
    value !== null &&
    isSecureUrl(Reflect.get(value, 'url')) &&
    TEXTS.accept(Reflect.get(value, 'authorizationServers')) &&
    [Reflect.get(value, 'authorizationServers')].flat().every(isSecureUrl),
};

function isSecureUrl(value: unknown): boolean {
  if (typeof value !== 'string' || !URL.canParse(value)) return false;
  const { protocol, hostname } = new URL(value);
  return protocol === 'https:' || (protocol === 'http:' && LOOPBACK.includes(hostname));
}

export const MCP_SERVER = defineOptions<McpServerOptions>(
  {
    verifier: VERIFIER,
    anonymous: PRINCIPAL,
    requiredScopes: TEXTS,
    resource: RESOURCE,
    hosts: HOST_NAMES,
    origins: HOST_NAMES,
    name: TEXT,
    version: TEXT,
    instructions: TEXT,
    names: TOOL_NAMES,
    ui: UI,
    loop: TEXT,
    session: FUNCTION,
    vouchFor: FUNCTION,
    approvalUrl: FUNCTION,
    approver: FUNCTION,
    stateKey: KEY,
    trace: TRACING,
  },
  { together: openToAll },
);

/** A server that asks for no token must not answer where others can reach it. */
function openToAll(
  { anonymous, hosts = LOOPBACK }: Partial<McpServerOptions>,
  at: string,
): Finding[] {
  const others = hosts.filter((host) => !LOOPBACK.includes(host));
  if (!anonymous || others.length === 0) return [];
  return [
    {
      at,
      problem: `It lets in requests without a token, and answers as ${others.join(', ')}.`,
      remedy: 'Leave out anonymous, or name loopback hosts only.',
    },
  ];
}

/** The parts of the catalog by which names are checked. */
type KnownTools = Pick<ToolCatalog, 'find' | 'entityTool' | 'suggest' | 'announced'>;

/**
 * Finds what is wrong with the tools and pages that options name, once all of them are known. Tools
 * of sources may come later.
 */
export function namedToolFindings(
  { names = {}, ui = {} }: McpServerOptions,
  tools: KnownTools,
  pages: readonly string[],
): readonly Finding[] {
  return [
    ...Object.keys(names).flatMap((id) => unknownTool(id, 'names', tools)),
    ...Object.entries(names).flatMap(([id, name]) => takenName(id, name, names, tools)),
    ...Object.keys(ui).flatMap((id) => unknownTool(id, 'ui', tools)),
    ...Object.entries(ui).flatMap(([id, uri]) =>
      pages.includes(uri)
        ? []
        : [
            {
              at: 'McpServerModule ui',
              problem: `The page of "${id}" is "${uri}", which no @LlmResource has.`,
              remedy: nearestName(uri, pages),
            },
          ],
    ),
  ];
}

function unknownTool(id: string, option: 'names' | 'ui', tools: KnownTools): Finding[] {
  const at = `McpServerModule ${option}`;
  if (option === 'names' && tools.entityTool(id))
    return [
      {
        at,
        problem: `"${id}" is a tool of an entity, which keeps its id.`,
        remedy: 'Leave it out.',
      },
    ];
  if (tools.find(id) || tools.entityTool(id) || tools.announced.has(id)) return [];
  return [{ at, problem: `There is no tool "${id}".`, remedy: nearestName(id, tools.suggest(id)) }];
}

function takenName(
  id: string,
  name: string,
  names: Readonly<Record<string, string>>,
  tools: KnownTools,
): Finding[] {
  if (name === id || !tools.find(name) || Object.hasOwn(names, name)) return [];
  return [
    {
      at: 'McpServerModule names',
      problem: `"${name}" is the name of "${id}", and the id of another tool.`,
      remedy: 'Choose another name.',
    },
  ];
}

/** The token of the loop that is served. */
export const loopTokenOf = ({ loop }: Pick<McpServerOptions, 'loop'>): string | undefined =>
  loop === undefined ? undefined : toolLoopToken(loop);
