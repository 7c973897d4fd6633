import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  type OnModuleInit,
} from '@nestjs/common';
import { HttpAdapterHost, ModuleRef, ModulesContainer } from '@nestjs/core';
import {
  type CallToolResult,
  createMcpHandler,
  fromJsonSchema,
  McpServer,
} from '@modelcontextprotocol/server';
import { OperatorError, ToolCatalog, ToolLoopService } from '@toolloop/core';
import { Logger, Operators, RunOpener } from '@toolloop/core/internal';
import { RunService } from '@toolloop/core/runs';
import type { RunStatus } from '@toolloop/core/stores';
import {
  ConfigurationError,
  InvalidRequestError,
  isRecord,
  type JsonObject,
  RunError,
} from '@toolloop/protocol';
import type { IncomingMessage } from 'node:http';
import { firstValueFrom } from 'rxjs';
import {
  type Asked as HttpRequest,
  Authentication,
  type Exchange,
  failure,
  refusedByAddress,
  respond,
} from './http-requests.js';
import { MCP_SERVER_OPTIONS } from './mcp-endpoint.js';
import {
  loopTokenOf,
  type McpPrincipal,
  type McpServerOptions,
  type McpSessionTerms,
  namesOf,
} from './server-options.js';
import { CallerBus } from './served-sessions.js';
import { toWireResult } from './to-wire-result.js';

/**
 * Serves tools for developers: what the application is made of, what is wrong with it, what its
 * runs did, why a tool is offered, and a call that changes nothing. They are an operator's, of the
 * operator's own tenant, and are served to this machine alone. No model of the application is ever
 * offered one.
 */
@Injectable()
export class DevTools implements OnModuleInit, BeforeApplicationShutdown {
  private readonly authentication: Authentication;
  private readonly bus = new CallerBus();
  private readonly handler = createMcpHandler(() => this.serverFor(this.bus.caller.principal), {
    bus: this.bus,
    onerror: REPORT,
  });
  private readonly tools = Object.entries(TOOLS).map(([tool, { description, input }]) => ({
    tool,
    told: { description, inputSchema: fromJsonSchema<Asked>(input), annotations: READS },
  }));
  private hasWarned = false;

  constructor(
    @Inject(MCP_SERVER_OPTIONS) private readonly options: McpServerOptions,
    private readonly modules: ModuleRef,
    private readonly container: ModulesContainer,
    private readonly adapters: HttpAdapterHost,
    private readonly catalog: ToolCatalog,
    private readonly runs: RunService,
    private readonly operators: Operators,
    private readonly opener: RunOpener,
  ) {
    const { anonymous: _anonymous, ...others } = options;
    this.authentication = new Authentication(others);
  }

  /** Keeps an application from starting that is in production. */
  onModuleInit(): void {
    if (process.env['NODE_ENV'] !== 'production') return;
    const problem = 'The development tools are on, and NODE_ENV is production.';
    throw new ConfigurationError([
      { at: 'McpServerModule devTools', problem, remedy: 'Leave devTools out in production.' },
    ]);
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.handler.close();
  }

  /** Answers one request. */
  async handle(exchange: Exchange): Promise<void> {
    const isLocal = this.isLocal(exchange.request);
    await respond(exchange, (request) => (isLocal ? this.answer(request) : this.hidden()));
  }

  /**
   * Tells whether the application listens on loopback alone, and the request comes through no
   * proxy.
   */
  private isLocal({ socket, headers }: IncomingMessage): boolean {
    const server: unknown = this.adapters.httpAdapter.getHttpServer();
    const listening: unknown = isListener(server) ? server.address() : undefined;
    const addresses = [
      isRecord(listening) ? listening['address'] : undefined,
      socket.localAddress,
      socket.remoteAddress,
    ];
    return addresses.every(isLoopback) && !FORWARDED.some((name) => name in headers);
  }

  private hidden(): Promise<Response> {
    if (!this.hasWarned)
      logger.warn(
        'The development tools answer on loopback alone: let the application listen on 127.0.0.1, without a proxy before it.',
      );
    this.hasWarned = true;
    return Promise.resolve(failure(404, -32_000, 'Not found'));
  }

  private async answer(request: HttpRequest): Promise<Response> {
    const refused = refusedByAddress(request, LOOPBACK_NAMES);
    if (refused) return refused;
    const principal = await this.authentication.of(request);
    if (principal instanceof Response) return principal;
    if (!this.operators.may(principal, 'devTools')) return this.forbidden(principal);
    const parsedBody = request.method === 'POST' ? await request.json() : undefined;
    if (parsedBody instanceof Response) return parsedBody;
    const caller = { principal, key: '', address: () => undefined };
    return this.bus.run(caller, () => this.handler.fetch(request.whole(), { parsedBody }));
  }

  /** Refuses someone who is no operator, which is in the audit. */
  private async forbidden(principal: McpPrincipal): Promise<Response> {
    const refused = await this.operators
      .use(principal, 'devTools')
      .catch((error: unknown) => error);
    return failure(
      403,
      -32_000,
      refused instanceof OperatorError ? refused.message : 'Only operators may do this.',
    );
  }

  private serverFor(operator: McpPrincipal): McpServer {
    const { name = 'toolloop', version = '0.0.0' } = this.options;
    const server = new McpServer({ name: `${name}-dev`, version }, { instructions: INSTRUCTIONS });
    for (const { tool, told } of this.tools)
      server.registerTool(tool, told, (args, { mcpReq }) =>
        this.made(tool, operator, { ...args, signal: mcpReq.signal }),
      );
    return server;
  }

  /** Makes one call of an operator, which is in the audit with the name of the tool. */
  private async made(
    tool: string,
    operator: McpPrincipal,
    asked: Asked & Signalled,
  ): Promise<CallToolResult> {
    try {
      await this.operators.use(operator, 'devTools', { details: { tool } });
      return await this.answerTo(tool, operator, asked);
    } catch (error) {
      if (
        error instanceof OperatorError ||
        error instanceof InvalidRequestError ||
        error instanceof RunError
      )
        return { ...shown({ error: error.message }), isError: true };
      logger.error(`The development tool ${tool} failed.`, error);
      return {
        ...shown({ error: 'It failed. The log of the application says why.' }),
        isError: true,
      };
    }
  }

  private async answerTo(
    tool: string,
    operator: McpPrincipal,
    asked: Asked & Signalled,
  ): Promise<CallToolResult> {
    switch (tool) {
      case 'modules':
        return shown([...this.container.values()].map(moduleView));
      case 'tools':
        return shown(
          asked.tool === undefined
            ? this.catalog.subjects().map((one) => this.toolView(one))
            : this.catalog.describe(asked.tool),
        );
      case 'findings':
        return shown(await firstValueFrom(this.catalog.findings$));
      case 'runs':
        return shown(
          await this.runs.list(operator, {
            ofTenant: true,
            limit: MOST_RUNS,
            ...(asked.status && { status: asked.status }),
          }),
        );
      case 'explain':
        return shown(await this.explained(operator, asked));
      default:
        return this.rehearsed(operator, asked);
    }
  }

  private toolView({ declaredId }: { readonly declaredId: string }): object {
    const { description, effect, source, trusted, perInstance } = this.catalog.describe(declaredId);
    return { id: declaredId, description, effect, source, trusted, perInstance };
  }

  private async explained(
    operator: McpPrincipal,
    { tool, actorId, runId, toolCallId }: Asked,
  ): Promise<unknown> {
    if (runId !== undefined && toolCallId !== undefined)
      return this.loop.explainCall({ runId, toolCallId, operator });
    if (tool === undefined)
      throw new InvalidRequestError(
        'invalid_request',
        'Name a tool, or a call by its runId and its toolCallId.',
      );
    const subject = actorId === undefined ? operator : await this.actorOf(actorId, operator);
    const { actor, tenant } = subject;
    return this.loop.explain(tool, { ...this.termsOf(subject), actor, tenant, operator });
  }

  private async actorOf(actorId: string, { tenant }: McpPrincipal): Promise<McpPrincipal> {
    const actor: unknown = await this.opener.directory.find(actorId, tenant);
    if (actor !== undefined) return { actor, tenant };
    throw new InvalidRequestError(
      'invalid_request',
      `No actor of this tenant has the id ${JSON.stringify(actorId)}.`,
    );
  }

  private async rehearsed(
    operator: McpPrincipal,
    { tool = '', args = {}, signal }: Asked & Signalled,
  ): Promise<CallToolResult> {
    const { actor, tenant } = operator;
    const { labels: _labels, ...terms } = this.termsOf(operator);
    const made = await this.loop.call({
      ...terms,
      tool,
      args,
      rehearse: true,
      actor,
      tenant,
      signal,
    });
    const result = toWireResult(made, undefined);
    return { ...result, content: [...shown(made.record).content, ...result.content] };
  }

  private termsOf(principal: McpPrincipal): McpSessionTerms {
    return this.options.session?.(principal) ?? {};
  }

  private get loop(): ToolLoopService {
    return this.modules.get(loopTokenOf(this.options) ?? ToolLoopService, { strict: false });
  }
}

const logger = new Logger('McpDevTools');
const REPORT = (error: Error): void => logger.debug(error.message);

/** The arguments of all of these tools, each of which takes some. */
interface Asked {
  readonly tool?: string;
  readonly args?: JsonObject;
  readonly actorId?: string;
  readonly runId?: string;
  readonly toolCallId?: string;
  readonly status?: RunStatus;
}

interface Signalled {
  readonly signal: AbortSignal;
}

const INSTRUCTIONS =
  'What a Toolloop application is made of and what it did, for its developers. Nothing here changes anything: calls are rehearsals, which are rolled back or previewed.';
const READS = { readOnlyHint: true, openWorldHint: false };
const MOST_RUNS = 50;
const TEXT = { type: 'string', maxLength: 256 } as const;

function inputOf(properties: Readonly<Record<string, object>>, ...required: string[]) {
  return { type: 'object', properties, required, additionalProperties: false } as const;
}

const TOOLS = {
  modules: {
    description:
      'Lists the modules of the application, with their imports, controllers and providers.',
    input: inputOf({}),
  },
  tools: {
    description:
      'Lists all tools of the catalog; or tells everything about one, such as its schemas and labels, by its declared id.',
    input: inputOf({ tool: TEXT }),
  },
  findings: {
    description: 'Lists what is not well with tools and policies, with a remedy for each.',
    input: inputOf({}),
  },
  runs: {
    description: `Lists the latest runs of your tenant, ${MOST_RUNS} at most.`,
    input: inputOf({ status: { enum: ['queued', 'running', 'waiting', 'ended'] } }),
  },
  explain: {
    description:
      'Explains why a tool is offered to you, or to an actor of your tenant, and may be called; or what the audit has about one call.',
    input: inputOf({ tool: TEXT, actorId: TEXT, runId: TEXT, toolCallId: TEXT }),
  },
  call: {
    description:
      'Rehearses a call of a tool in your name: reads are made, changes are rolled back or previewed, and no person is asked.',
    input: inputOf({ tool: TEXT, args: { type: 'object' } }, 'tool'),
  },
} as const;

const LOOPBACK_NAMES = namesOf({});

/** The headers by which a proxy says that a request is that of someone else. */
const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via'];

function isListener(server: unknown): server is { address(): unknown } {
  return (
    typeof server === 'object' &&
    server !== null &&
    'address' in server &&
    typeof server.address === 'function'
  );
}

function isLoopback(address: unknown): boolean {
  return typeof address === 'string' && /^(?:(?:::ffff:)?127\.\d+\.\d+\.\d+|::1)$/.test(address);
}

function shown(value: unknown): CallToolResult {
  return { content: [{ type: 'text', text: JSON.stringify(value, undefined, 1) }] };
}

type NestModule = ReturnType<ModulesContainer['get']> & {};

function moduleView({ name, imports, controllers, providers }: NestModule): object {
  const named = new Set([...providers.values()].map((provider) => nameOf(provider.name)));
  const own = [...named].filter((one) => one !== name && !OF_NEST.has(one));
  return {
    module: name,
    imports: [...imports].map((module) => module.name),
    controllers: [...controllers.values()].map((controller) => nameOf(controller.name)),
    providers: own,
  };
}

/** The providers that Nest gives to each module. */
const OF_NEST: ReadonlySet<string> = new Set(['ModuleRef', 'ApplicationConfig']);

function nameOf(token: unknown): string {
  return typeof token === 'function' ? token.name : String(token);
}
