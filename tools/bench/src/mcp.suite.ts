// The low-level Server of the SDK, which @toolloop/mcp uses as well.
/* oxlint-disable typescript/no-deprecated -- see above */
import { fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { fileURLToPath } from 'node:url';
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import {
  createMcpHandler,
  isInitializeRequest,
  Server,
  verifyBearerToken,
} from '@modelcontextprotocol/server';
import {
  All,
  Controller,
  type INestApplication,
  Module,
  Req,
  Res,
  type Type,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { McpServerModule } from '@toolloop/mcp';
import { InProcessModel, moduleOf, textOf, WHO } from './application.js';
import { PipelineTools } from './pipeline.tools.js';
import type { Section, Suite } from './report.js';
import { compare, type Contender, type Samples } from './sampling.js';

const ERAS = ['2026-07-28', '2025-11-25'];
const MOST = 2_000;
const CALLS = 400;
const IN_FLIGHT = 20;
const ROUNDS = { rounds: 9, warmUp: 3 };
const DESK = '@toolloop/mcp';
const BARE = 'the SDK alone';

/** The cost of a call over MCP, beside the same server of the SDK behind the same route. */
export const mcpSuite: Suite = {
  name: 'mcp',
  async run(): Promise<Section> {
    const apps = [await listen(ToolloopModule), await listen(SdkModule)];
    const clients = startClients();
    const [desk = '', bare = ''] = await Promise.all(
      apps.map(async (app) => `${await app.getUrl()}/mcp`),
    );
    const servers = [{ name: DESK, url: desk }, { name: BARE, url: bare }]; // prettier-ignore
    const fast = new Map<string, number>();
    for (const era of ERAS)
      for (const { name, url } of servers)
        fast.set(nameOf(name, era), await clients.perSecond({ url, era }));
    const contenders = ERAS.flatMap((era) =>
      servers.map(({ name, url }): Contender => ({
        name: nameOf(name, era),
        units: CALLS,
        work: () => clients.make({ url, era }, CALLS),
      })),
    );
    const samples = await compare(contenders, ROUNDS);
    await clients.stop();
    for (const app of apps) await app.close();
    return section(samples, fast);
  },
};

function nameOf(server: string, era: string): string {
  return `${server}, ${era}`;
}

const verifier = { verify: (token: string) => (token === 'alice' ? WHO : undefined) };

@Module({
  imports: [
    moduleOf(new InProcessModel(() => textOf('Done.')), [PipelineTools]),
    McpServerModule.forRoot({ verifier, name: 'bench', version: '1.0.0' }),
  ],
})
class ToolloopModule {}

const INPUT = {
  type: 'object',
  properties: {
    name: { type: 'string', maxLength: 80 },
    limit: { type: 'integer', minimum: 1, maximum: 50 },
    active: { type: 'boolean' },
  },
  required: ['name', 'limit', 'active'],
} as const;

/** The same tool on a server of the SDK, which checks no argument and asks no policy. */
function bareServer(): Server {
  const tools = new PipelineTools();
  const server = new Server({ name: 'bench', version: '1.0.0' }, { capabilities: { tools: {} } });
  server.setRequestHandler('tools/list', () => ({
    tools: [{ name: 'bench__plain', inputSchema: { ...INPUT, required: [...INPUT.required] } }],
  }));
  server.setRequestHandler('tools/call', async ({ params: { arguments: args = {} } }) => {
    const found = await tools.plain({
      name: String(args['name']),
      limit: Number(args['limit']),
      active: args['active'] === true,
    });
    return { content: [{ type: 'text', text: JSON.stringify(found) }] };
  });
  return server;
}

interface Asked extends IncomingMessage {
  readonly body?: unknown;
}

/** The route of both eras, as the documentation of the SDK has it. */
@Controller('mcp')
class SdkController {
  private readonly modern = toNodeHandler(createMcpHandler(bareServer, { legacy: 'reject' }));
  private readonly sessions = new Map<string, NodeStreamableHTTPServerTransport>();

  @All()
  async handle(@Req() request: Asked, @Res() response: ServerResponse): Promise<void> {
    await verifyBearerToken(request.headers.authorization, {
      verifier: { verifyAccessToken: claimsOf },
    });
    const { body } = request;
    if (request.headers['mcp-protocol-version'] === ERAS[0])
      return this.modern(request, response, body);
    const id = String(request.headers['mcp-session-id']);
    const transport =
      this.sessions.get(id) ?? (isInitializeRequest(body) ? await this.begin() : undefined);
    if (transport) await transport.handleRequest(request, response, body);
    else response.writeHead(404).end();
  }

  private async begin(): Promise<NodeStreamableHTTPServerTransport> {
    const transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void this.sessions.set(id, transport),
    });
    await bareServer().connect(transport);
    return transport;
  }
}

function claimsOf(
  token: string,
): Promise<{ token: string; clientId: string; scopes: string[]; expiresAt: number }> {
  if (!verifier.verify(token)) throw new Error('The token is unknown.');
  return Promise.resolve({
    token: '',
    clientId: '',
    scopes: [],
    expiresAt: Math.floor(Date.now() / 1000) + 60,
  });
}

@Module({ controllers: [SdkController] })
class SdkModule {}

async function listen(module: Type): Promise<INestApplication> {
  const app = await NestFactory.create(module, { logger: false, forceCloseConnections: true });
  await app.listen(0, '127.0.0.1');
  return app;
}

interface Place {
  readonly url: string;
  readonly era: string;
}

interface Clients {
  /** Makes calls, all of which must have the right result. */
  make(place: Place, calls: number): Promise<void>;
  perSecond(place: Place): Promise<number>;
  stop(): Promise<void>;
}

function startClients(): Clients {
  const child = fork(fileURLToPath(new URL('mcp-client.process.js', import.meta.url)), {
    execArgv: [],
  });
  const make = async (place: Place, calls: number): Promise<void> => {
    const answer = new Promise<unknown>((resolve) => child.once('message', resolve));
    child.send({ ...place, calls, inFlight: IN_FLIGHT });
    const right = await answer;
    if (right !== calls)
      throw new Error(
        `Of ${calls} calls to ${place.url} (${place.era}) these were right: ${String(right)}.`,
      );
  };
  return {
    make,
    perSecond: async (place) => {
      await make(place, CALLS); // the first calls are slow everywhere
      const before = performance.now();
      await make(place, MOST);
      return (MOST * 1_000) / (performance.now() - before);
    },
    stop: async () => {
      const exited = once(child, 'exit');
      child.disconnect();
      await exited;
    },
  };
}

function section(samples: Samples, fast: ReadonlyMap<string, number>): Section {
  const names = ERAS.flatMap((era) => [nameOf(DESK, era), nameOf(BARE, era)]);
  return {
    title: 'a call over MCP, beside the same server of the SDK behind the same route of Nest',
    method: [
      `One tool of three properties on two Nest applications of this process, Express, with a verifier of tokens. The SDK's low-level server checks no arguments, asks no policy and keeps no session of the loop.`,
      `The official client, in a process of its own, with ${IN_FLIGHT} calls in flight; every result is checked. Calls a second: ${MOST} calls, by the clock, with both processes on this machine.`,
      `µs per call: ${ROUNDS.rounds} rounds of ${CALLS} calls after ${ROUNDS.warmUp} of warm-up, interleaved; medians of this thread's time on a CPU and of all threads'.`,
    ],
    tables: [
      {
        title: 'µs per call',
        columns: [
          { key: 'server', title: 'server' },
          { key: 'thread', title: 'this thread', digits: 0 },
          { key: 'cpu', title: 'all threads', digits: 0 },
          { key: 'perSecond', title: 'calls a second', digits: 0 },
          { key: 'spread', title: '± %', digits: 0 },
        ],
        rows: names.map((name) => ({
          server: name,
          thread: samples.of(name, 'thread'),
          cpu: samples.of(name, 'cpu'),
          perSecond: fast.get(name) ?? null,
          spread: samples.spread(name, 'thread'),
        })),
      },
    ],
    targets: ERAS.map((era) => ({
      what: `a call of ${era}`,
      value: samples.ratio(nameOf(DESK, era), nameOf(BARE, era), 'thread'),
      unit: '× the SDK alone',
      atMost: 1.5,
    })),
    skipped: [],
  };
}
