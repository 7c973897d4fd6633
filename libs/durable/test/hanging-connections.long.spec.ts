import { connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { inspect } from 'node:util';
import { afterEach, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import { LlmTool, ToolLoopModule, ToolLoopService, ToolParam, ToolProvider } from '@toolloop/core';
import { DurableHealth, DurableModule } from '@toolloop/durable';
import { ScriptedModel } from '@toolloop/testing';
import { createServerDatabase, describePostgres } from './databases.js';

/** The way to the server, which forgets the connections that it has: they stay open, and nothing that is sent over them arrives. */
class ForgetfulWay {
  private readonly forgotten = new WeakSet<Socket>();
  private readonly open = new Set<Socket>();
  private readonly server: Server;

  constructor(private readonly url: URL) {
    this.server = createServer((from) => this.join(from, connect(Number(url.port), url.hostname)));
  }

  async start(): Promise<string> {
    await new Promise<void>((resolve) => {
      this.server.listen(0, '127.0.0.1', resolve);
    });
    const address = this.server.address();
    const through = new URL(this.url);
    through.hostname = '127.0.0.1';
    through.port = String(typeof address === 'object' ? address?.port : '');
    return through.href;
  }

  forget(): void {
    for (const socket of this.open) this.forgotten.add(socket);
  }

  close(): void {
    for (const socket of this.open) socket.destroy();
    this.server.close();
  }

  private join(...sides: readonly [Socket, Socket]): void {
    for (const [one, other] of [sides, sides.toReversed()] as const) {
      if (!one || !other) continue;
      this.open.add(one);
      one.on('data', (data) => this.forgotten.has(one) || other.write(data));
      one.on('error', () => undefined);
      one.on('close', () => {
        this.open.delete(one);
        if (!this.forgotten.has(one)) other.destroy();
      });
    }
  }
}

@ToolProvider({ namespace: 'desk' })
class DeskTools {
  @LlmTool({ description: 'Acts.', effect: 'state_change', reveal: 'all' })
  act(@ToolParam('key', { description: 'On what' }) key: string): string {
    return key;
  }
}

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

describePostgres('invariant 17: an application whose connections are gone without a word', () => {
  it('gives them up, and works again over others', async () => {
    const server = await createServerDatabase();
    cleanUps.push(() => server.drop());
    const way = new ForgetfulWay(new URL(server.url));
    const url = await way.start();
    cleanUps.push(() => way.close());
    const module = await Test.createTestingModule({
      imports: [
        DurableModule.forRoot({ url }),
        ToolLoopModule.forRoot({ model: new ScriptedModel([]), policy: { version: 'v1', allow: ['*'], flow: 'off' } }),
      ],
      providers: [DeskTools],
    }).compile();
    module.useLogger(false);
    await module.init();
    cleanUps.push(() => module.close());
    const loop: ToolLoopService = module.get(ToolLoopService);
    const health: DurableHealth = module.get(DurableHealth);
    const act = (key: string): Promise<string> =>
      loop.call({ actor: { id: 'alice' }, tenant: 'acme', tool: 'desk__act', args: { key } }).then(
        ({ record }) => record.status,
        (error: unknown) => {
          const { result, cause } = error as { readonly result?: { readonly error?: { readonly code: string } }; readonly cause?: unknown };
          const code = result?.error?.code ?? 'lost';
          return code === 'storage_unavailable' ? code : `${code}: ${inspect(cause ?? error)}`;
        },
      );
    expect(await act('before')).toBe('succeeded');
    way.forget();
    const told = new Set<string>();
    for (let status = ''; status !== 'succeeded'; told.add(status)) {
      status = await act('after');
      await health.readiness(); // asks the database as well, as a load balancer has it do
      await wait(200);
    }
    expect([...told].filter((status) => status !== 'succeeded' && status !== 'storage_unavailable')).toEqual([]);
    while (!(await health.readiness()).isReady) await wait(50);
  }, 180_000);
});
