import { describe, expect, it } from '@jest/globals';
import { Injectable, Module, type ModuleMetadata } from '@nestjs/common';
import {
  LlmTool,
  type LoopResult,
  type Policy,
  type ToolCallContext,
  ToolInput,
  ToolInterceptor,
  ToolLoopModule,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import type { ToolInvocation } from '@toolloop/core/contracts';
import {
  ScriptedModel,
  ToolLoopTestingModule,
  call,
  calls,
  expectDenied,
  expectTranscriptValid,
  text,
} from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { IsString, MinLength } from 'class-validator';

class SearchCustomers {
  @IsString()
  @MinLength(2)
  readonly name!: string;
}

@ToolProvider({ prefix: 'customer', instanceIdProperty: 'id' })
class Customer {
  @Expose() readonly id: string;
  @Expose() readonly name: string;
  readonly secret = 'hunter2';

  constructor(id: string, name: string) {
    this.id = id;
    this.name = name;
  }

  @LlmTool({ description: 'Average monthly spend.', effect: 'read_only', reveal: 'all' })
  getAverageSpend(): number {
    throw new Error('The ledger is not there in tests.');
  }
}

@Injectable()
@ToolProvider({ namespace: 'crm' })
class CustomerTools {
  @LlmTool({ description: 'Find customers by name.', effect: 'read_only', output: [Customer] })
  searchCustomers(@ToolInput() input: SearchCustomers): Customer[] {
    throw new Error(`The database is not there in tests: ${input.name}`);
  }

  @LlmTool({ description: 'Count customers.', effect: 'read_only', reveal: 'all' })
  countCustomers(): number {
    return 3;
  }
}

@Injectable()
class Witness extends ToolInterceptor {
  readonly results: unknown[] = [];

  async intercept(_: ToolInvocation, next: () => Promise<unknown>): Promise<unknown> {
    const result = await next();
    this.results.push(result);
    return result;
  }
}

@Module({
  imports: [ToolLoopModule.forFeature({ entities: [Customer] })],
  providers: [CustomerTools],
})
class CrmModule {}

@Module({})
class LateModule {}

async function* counted(): AsyncGenerator<number> {
  yield await Promise.resolve(1);
  yield 2;
}

const EVERYTHING: Policy = { allow: ['crm__*', 'customer_*_*'] };

function crm(model: ScriptedModel, policy = EVERYTHING): ToolLoopTestingModule {
  return ToolLoopTestingModule.create({
    imports: [ToolLoopModule.forRoot({ model, policy }), CrmModule],
  });
}

async function run(testing: ToolLoopTestingModule): Promise<LoopResult> {
  const app = await testing.compile();
  app.useLogger(false);
  await app.init();
  try {
    return await app
      .get(ToolLoopService)
      .run({ prompt: 'Who is Ada?', actor: { id: 'alice' }, tenant: 'acme' });
  } finally {
    await app.close();
  }
}

const SEARCH = calls(call('crm__searchCustomers', { name: 'Ada' }));

describe('an overridden tool', () => {
  it('gets the validated input and the context, and what it returns is projected', async () => {
    const seen: unknown[] = [];
    const model = new ScriptedModel([SEARCH, text('Found her.')]);
    const result = await run(
      crm(model)
        .override('crm__searchCustomers')
        .with((input: SearchCustomers, context: ToolCallContext) => {
          seen.push(input, context.tenant);
          return [new Customer('c1', input.name)];
        }),
    );
    expect(seen).toEqual([{ name: 'Ada' }, 'acme']);
    expect(seen[0]).toBeInstanceOf(SearchCustomers);
    expect(result.toolCalls[0]).toMatchObject({
      status: 'succeeded',
      result: [{ id: 'c1', name: 'Ada' }],
    });
    expect(JSON.stringify(result.messages)).not.toContain('hunter2');
    expectTranscriptValid(result);
    model.assertComplete();
  });

  it('can return an entity, whose tools appear and can be overridden for every instance', async () => {
    const model = new ScriptedModel([
      SEARCH,
      calls(call('customer_c1_getAverageSpend')),
      text('42'),
    ]);
    const result = await run(
      crm(model)
        .override('crm__searchCustomers')
        .with(() => Promise.resolve([new Customer('c1', 'Ada')]))
        .override('customer_*_getAverageSpend')
        .with(() => 42),
    );
    expect(model.requests[1]?.toolIds).toContain('customer_c1_getAverageSpend');
    expect(result.toolCalls[1]).toMatchObject({
      declaredId: 'customer_*_getAverageSpend',
      status: 'succeeded',
      result: 42,
    });
    model.assertComplete();
  });

  it('is not reached with arguments that are not valid', async () => {
    const seen: unknown[] = [];
    const model = new ScriptedModel([
      calls(call('crm__searchCustomers', { name: 'A' })),
      text('No.'),
    ]);
    const result = await run(
      crm(model)
        .override('crm__searchCustomers')
        .with((input) => seen.push(input)),
    );
    expect(result.toolCalls[0]).toMatchObject({
      status: 'failed',
      error: { code: 'invalid_args' },
    });
    expect(seen).toEqual([]);
  });

  it('is not reached when policy denies it', async () => {
    const seen: unknown[] = [];
    const model = new ScriptedModel([SEARCH, text('No.')]);
    const result = await run(
      crm(model, { allow: ['crm__countCustomers'] })
        .override('crm__searchCustomers')
        .with((input) => seen.push(input)),
    );
    expectDenied(result, 'crm__searchCustomers');
    expect(seen).toEqual([]);
  });

  it.each<[string, (witness: Witness) => ModuleMetadata]>([
    [
      'the root module',
      (witness) => ({ imports: [], providers: [{ provide: Witness, useValue: witness }] }),
    ],
    [
      'an imported module',
      (witness) => ({
        imports: [
          {
            module: LateModule,
            global: true,
            providers: [{ provide: Witness, useValue: witness }],
          },
        ],
      }),
    ],
  ])('stays behind the interceptors of %s', async (_, metadata) => {
    const witness = new Witness();
    const { imports = [], providers = [] } = metadata(witness);
    const model = new ScriptedModel([SEARCH, text('Nobody.')]);
    const forRoot = ToolLoopModule.forRoot({ model, policy: EVERYTHING });
    await run(
      ToolLoopTestingModule.create({ imports: [forRoot, CrmModule, ...imports], providers })
        .override('crm__searchCustomers')
        .with(() => []),
    );
    expect(witness.results).toEqual([[]]);
  });

  it('may stream, its last value being the result', async () => {
    const model = new ScriptedModel([calls(call('crm__countCustomers')), text('2')]);
    const result = await run(crm(model).override('crm__countCustomers').with(counted));
    expect(result.toolCalls[0]).toMatchObject({ status: 'succeeded', result: 2 });
  });

  it('fails like the real one when the fake throws', async () => {
    const model = new ScriptedModel([SEARCH, text('No.')]);
    const result = await run(
      crm(model)
        .override('crm__searchCustomers')
        .with(() => {
          throw new Error('hunter2');
        }),
    );
    expect(result.toolCalls[0]).toMatchObject({
      status: 'failed',
      error: { code: 'execution_failed' },
    });
    expect(JSON.stringify(result.messages)).not.toContain('hunter2');
  });

  it('leaves the other tools as they are, and the last override of one wins', async () => {
    const model = new ScriptedModel([
      calls(call('crm__countCustomers'), call('crm__searchCustomers', { name: 'Ada' })),
      text('3'),
    ]);
    const result = await run(
      crm(model)
        .override('crm__searchCustomers')
        .with(() => [new Customer('c1', 'first')])
        .override('crm__searchCustomers')
        .with(() => [new Customer('c1', 'second')]),
    );
    expect(result.toolCalls.map((record) => record.result)).toEqual([
      3,
      [{ id: 'c1', name: 'second' }],
    ]);
  });
});

describe('an override of a tool that is not there', () => {
  it('stops the start with the closest ids, all findings at once', async () => {
    const app = await crm(new ScriptedModel([]))
      .override('crm__searchCustomer')
      .with(() => [])
      .override('customer_c1_getAverageSpend')
      .with(() => 0)
      .compile();
    const starting = app.init();
    await expect(starting).rejects.toThrow(
      /override\('crm__searchCustomer'\): No tool has this declared id\.\s+Did you mean crm__searchCustomers/,
    );
    await expect(starting).rejects.toThrow(/Did you mean customer_\*_getAverageSpend/);
  });
});

describe('the builder of Nest', () => {
  it('is there for everything else', async () => {
    const model = new ScriptedModel([calls(call('crm__countCustomers')), text('5')]);
    const testing = crm(model);
    class FewerCustomers extends CustomerTools {
      override countCustomers(): number {
        return 1;
      }
    }
    testing.builder.overrideProvider(CustomerTools).useClass(FewerCustomers);
    const result = await run(testing);
    expect(result.toolCalls[0]).toMatchObject({ status: 'succeeded', result: 1 });
  });
});
