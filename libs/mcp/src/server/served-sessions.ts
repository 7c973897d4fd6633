import { AsyncLocalStorage } from 'node:async_hooks';
import { isDeepStrictEqual } from 'node:util';
import type {
  JSONRPCRequest,
  McpRequestContext,
  ServerEvent,
  ServerEventBus,
} from '@modelcontextprotocol/server';
import type { ToolLoopService } from '@toolloop/core';
import type { SessionRequest, ToolSession } from '@toolloop/core/contracts';
import type { ActorIdentity } from '@toolloop/core/internal';
import { ClientTransport, RequestTransport } from './client-transports.js';
import type { WebAnswer } from './http-requests.js';
import type { Offers } from './offers.js';
import type { McpPrincipal, McpServerOptions } from './server-options.js';
import { toolServer } from './tool-server.js';
import type { McpCaller, WaitingCalls } from './waiting-calls.js';

/**
 * The sessions of MCP clients. Those of the loop are below them, which count them, limit them and
 * close those that are idle.
 */
export class ServedSessions {
  private readonly shared = new Map<string, SharedSession>();
  private readonly ofClients = new Map<string, ClientSession>();
  /** The requests of the era of 2026 under way that are answered here. */
  private readonly requests = new Set<RequestTransport>();
  private isClosed = false;
  readonly bus = new CallerBus();

  constructor(
    private readonly loopOf: () => ToolLoopService,
    private readonly identity: ActorIdentity,
    private readonly options: McpServerOptions,
    private readonly waiting: WaitingCalls,
    private readonly offers: Offers,
  ) {}

  /**
   * Names the caller of a request; undefined for an actor without an id, whose requests nothing
   * connects.
   */
  callerOf(
    principal: McpPrincipal,
    {
      scope = '',
      address = NOWHERE,
    }: Partial<Pick<McpCaller, 'address'>> & { readonly scope?: string | undefined },
  ): McpCaller | undefined {
    const actorId = this.identity.idOf(principal.actor);
    return actorId === undefined
      ? undefined
      : { principal, key: JSON.stringify([principal.tenant, actorId, scope]), address };
  }

  /** Makes the server of one request in the era of 2026, whose caller is that of the moment. */
  readonly server = (): ReturnType<typeof toolServer> => this.serverOf(this.bus.caller);

  /**
   * Answers a request of the era of 2026 that has nothing to be refused.
   *
   * @throws {Error} Once the server is closed.
   */
  async answer(message: JSONRPCRequest, caller: McpCaller, gone: AbortSignal): Promise<WebAnswer> {
    if (this.isClosed) throw new Error('The MCP server is closed.');
    const transport = new RequestTransport(() => this.requests.delete(transport));
    this.requests.add(transport);
    await this.serverOf(caller).connect(transport);
    return transport.answer(message, gone);
  }

  /**
   * Makes the server of a connection that is one caller's for as long as it lasts, and is told of
   * what changes.
   */
  connected(caller: McpCaller, era: McpRequestContext['era']): ReturnType<typeof toolServer> {
    const { options, waiting, bus, offers } = this;
    const watched = new Set<string>();
    const server = toolServer({
      options,
      waiting,
      caller,
      offers,
      watched,
      sessionOf: () => this.ofCaller(caller),
    });
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- a server of the SDK has no other
    server.onclose = bus.run(caller, () =>
      bus.subscribe((event) => {
        if (event.kind === 'tools_list_changed') void server.sendToolListChanged().catch(IS_GONE);
        // In the era of 2026 it is the connection that knows what its client watches.
        if (event.kind === 'resource_updated' && (era === 'modern' || watched.has(event.uri)))
          void server.sendResourceUpdated({ uri: event.uri }).catch(IS_GONE);
      }),
    );
    return server;
  }

  /** Returns the session that the requests of a caller share, and opens it where there is none. */
  async ofCaller(caller: McpCaller): Promise<ToolSession> {
    const { key, principal } = caller;
    const known = this.shared.get(key);
    if (known && isDeepStrictEqual(known.actor, principal.actor)) {
      const session = await known.session;
      if (session.isOpen) return session;
    }
    // The token describes its actor otherwise than before: what the session knows of the actor must
    // not be used again.
    if (known && this.shared.get(key) === known) {
      this.shared.delete(key);
      void closed(known.session);
    }
    return this.shared.get(key)?.session ?? this.opened(caller);
  }

  /**
   * Opens a session that its client names from now on, and returns the transport of its requests.
   */
  async begin(caller: McpCaller): Promise<ClientTransport> {
    const session = await this.open(caller);
    const { sessionId } = session;
    const transport = new ClientTransport(sessionId, () => {
      this.ofClients.delete(sessionId);
      void session.close();
    });
    const { options, waiting, offers } = this;
    const watched = new Set<string>();
    const server = toolServer({
      options,
      waiting,
      caller,
      offers,
      watched,
      sessionOf: () => Promise.resolve(session),
    });
    const tell = (uri: string): void => void server.sendResourceUpdated({ uri }).catch(IS_GONE);
    this.ofClients.set(sessionId, { caller, session, transport, watched, tell });
    session.changes$.subscribe({
      next: () => void server.sendToolListChanged().catch(IS_GONE),
      complete: () => transport.end(),
    });
    await server.connect(transport);
    return transport;
  }

  /**
   * Finds the session that a client has named; undefined for one of another caller, and for one
   * whose actor is not what it was.
   */
  find(sessionId: string, { principal, key }: McpCaller): ClientTransport | undefined {
    const found = this.ofClients.get(sessionId);
    if (!found?.session.isOpen || found.caller.key !== key) return undefined;
    if (isDeepStrictEqual(found.caller.principal.actor, principal.actor)) return found.transport;
    void found.transport.close();
    return undefined;
  }

  /** Tells those clients of a change of a resource who watch it and whom policy allows it. */
  async resourceChanged(uri: string, { tenant, actor }: ResourceReaders): Promise<void> {
    const { declaredId } = this.offers.resourceAt(uri)?.offer ?? {};
    if (declaredId === undefined) return;
    const actorId = actor === undefined ? undefined : this.identity.idOf(actor);
    const isMeant = ({ principal }: McpCaller): boolean =>
      principal.tenant === tenant &&
      (actor === undefined ||
        (actorId !== undefined && this.identity.idOf(principal.actor) === actorId));
    const mayRead = async (session: ToolSession): Promise<boolean> => {
      await session.list();
      return session.describe(declaredId) !== undefined;
    };
    const ofClients = [...this.ofClients.values()].filter(
      ({ caller, watched }) => watched.has(uri) && isMeant(caller),
    );
    const told = ofClients.map(async ({ session, tell }) => (await mayRead(session)) && tell(uri));
    const streams = this.bus.callers.filter(isMeant).map(async (caller) => {
      // The token of the stream may describe its actor as it was.
      if (await mayRead(await (this.shared.get(caller.key)?.session ?? this.ofCaller(caller))))
        this.bus.tell(caller.key, { kind: 'resource_updated', uri });
    });
    await Promise.all([...told, ...streams]);
  }

  /** Ends every session, and with them the streams of their clients. */
  async close(): Promise<void> {
    this.isClosed = true;
    const transports = [
      ...this.requests,
      ...[...this.ofClients.values()].map(({ transport }) => transport),
    ];
    const sessions = [...this.shared.values()].map(({ session }) => closed(session));
    await Promise.all([...transports.map((transport) => transport.close()), ...sessions]);
  }

  private serverOf(caller: McpCaller): ReturnType<typeof toolServer> {
    const { options, waiting, offers } = this;
    return toolServer({
      options,
      waiting,
      caller,
      offers,
      watched: new Set(),
      sessionOf: () => this.ofCaller(caller),
    });
  }

  private opened(caller: McpCaller): Promise<ToolSession> {
    const { key } = caller;
    const session = this.open(caller);
    const shared: SharedSession = { actor: caller.principal.actor, session };
    this.shared.set(key, shared);
    void this.follow(shared, key);
    return session;
  }

  private async follow(shared: SharedSession, key: string): Promise<void> {
    const forget = (): void => {
      if (this.shared.get(key) === shared) this.shared.delete(key);
    };
    try {
      const { changes$ } = await shared.session;
      changes$.subscribe({
        next: () => this.bus.tell(key, { kind: 'tools_list_changed' }),
        complete: forget,
      });
    } catch {
      // The request that opened it is told; the next one may try again.
      forget();
    }
  }

  private open({ principal }: McpCaller): Promise<ToolSession> {
    const { actor, tenant } = principal;
    const terms = this.options.session?.(principal) ?? {};
    // The protocol has places of its own for the outcome and the times of a call.
    const execution = { resultFormat: 'value', metadata: 'none' } as const;
    return this.loopOf().session({
      ...terms,
      execution,
      actor,
      tenant,
      scope: ACCOUNT,
      ...standingOf(principal, this.options),
    });
  }
}

/** Those who are told of a change of a resource. */
export interface ResourceReaders {
  readonly tenant: string;
  /** The one actor who is told. @default all of the tenant */
  readonly actor?: unknown;
}

/** A session of the era of 2026, which requests of one principal in one scope share. */
interface SharedSession {
  readonly actor: unknown;
  readonly session: Promise<ToolSession>;
}

/** A session of the era of 2025, which a client opens and names with each request. */
interface ClientSession {
  readonly caller: McpCaller;
  readonly session: ToolSession;
  readonly transport: ClientTransport;
  /** The resources of whose changes the client asked to be told. */
  readonly watched: ReadonlySet<string>;
  readonly tell: (uri: string) => void;
}

/**
 * All that a principal does is kept in one account, whatever session or scope it is done in: a
 * client that chooses another scope gets rid of nothing.
 */
const ACCOUNT = 'mcp';

/**
 * Returns how far a client is trusted. A token proves whose client it is, and nothing of what that
 * has read: an agent reads other servers and the web.
 */
function standingOf(
  principal: McpPrincipal,
  { vouchFor }: Pick<McpServerOptions, 'vouchFor'>,
): Pick<SessionRequest, 'readsElsewhere' | 'vouchedFor'> {
  const reason: unknown = vouchFor?.(principal);
  return typeof reason === 'string' && reason.trim() !== ''
    ? { vouchedFor: reason }
    : { readsElsewhere: true };
}

/** The address of a connection that has none. */
const NOWHERE = (): undefined => undefined;

/** A client that left cannot be told. */
const IS_GONE = (): undefined => undefined;

async function closed(session: Promise<ToolSession>): Promise<void> {
  await session.then((opened) => opened.close(), IS_GONE);
}

/**
 * Tells a change to the streams of the caller whom it is about. The SDK's own bus would tell the
 * streams of all callers.
 */
export class CallerBus implements ServerEventBus {
  private readonly current = new AsyncLocalStorage<McpCaller>();
  private readonly listeners = new Map<(event: ServerEvent) => void, McpCaller>();

  /** The caller of the request that is being handled. */
  get caller(): McpCaller {
    const caller = this.current.getStore();
    if (!caller) throw new TypeError('No request of an MCP client is being handled.');
    return caller;
  }

  /** The callers with open streams, each once. */
  get callers(): readonly McpCaller[] {
    return [
      ...new Map([...this.listeners.values()].map((caller) => [caller.key, caller])).values(),
    ];
  }

  /** Handles a request, whose streams are the caller's from then on. */
  run<Answer>(caller: McpCaller, work: () => Answer): Answer {
    return this.current.run(caller, work);
  }

  subscribe(listener: (event: ServerEvent) => void): () => void {
    this.listeners.set(listener, this.caller);
    return () => void this.listeners.delete(listener);
  }

  tell(key: string, event: ServerEvent): void {
    for (const [listener, caller] of this.listeners) if (caller.key === key) listener(event);
  }

  /**
   * Tells no caller, since what changes does so for one. The SDK calls it through `handler.notify`,
   * which nothing uses here.
   */
  publish(): void {
    // See above.
  }
}
