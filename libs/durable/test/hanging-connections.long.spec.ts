import { setTimeout as wait } from 'node:timers/promises';
import { inspect } from 'node:util';
import { afterEach, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import { LlmTool, ToolLoopModule, ToolLoopService, ToolParam, ToolProvider } from '@toolloop/core';
import { DurableHealth, DurableModule, openDatabase } from '@toolloop/durable';
import { ScriptedModel } from '@toolloop/testing';
import { createServerDatabase, describePostgres } from './databases.js';
import { Way } from './fixtures/way.js';

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
    const way = await Way.to(server.url);
    const { url } = way;
    cleanUps.push(() => way.close());
    const module = await Test.createTestingModule({
      imports: [
        DurableModule.forRoot({ url }),
        ToolLoopModule.forRoot({
          model: new ScriptedModel([]),
          policy: { version: 'v1', allow: ['*'], flow: 'off' },
        }),
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
          const { result, cause } = error as {
            readonly result?: { readonly error?: { readonly code: string } };
            readonly cause?: unknown;
          };
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
    expect(
      [...told].filter((status) => status !== 'succeeded' && status !== 'storage_unavailable'),
    ).toEqual([]);
    while (!(await health.readiness()).isReady) await wait(50);
  });

  it.each([
    ['before the server has let it in', 1],
    ['before its session has its settings', 2],
  ])('tells that the server does not answer if a connection is lost %s', async (_, answers) => {
    const server = await createServerDatabase();
    cleanUps.push(() => server.drop());
    let heard = 0;
    const way: Way = await Way.to(server.url, () => {
      heard += 1;
      if (heard >= answers) way.forget();
    });
    cleanUps.push(() => way.close());
    await expect(openDatabase({ url: way.url })).rejects.toThrow(
      /No answer|does not answer|timeout/,
    );
  });
});
