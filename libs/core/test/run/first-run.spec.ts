import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { Expose } from 'class-transformer';
import { IsString } from 'class-validator';
import {
  LlmTool,
  type ToolCallContext,
  ToolContext,
  ToolInput,
  ToolLoopModule,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import { ScriptedModel, call, calls, collect, text } from '@toolloop/testing';

class SearchInput {
  @IsString() name!: string;
}

@ToolProvider({ prefix: 'customer' })
class Customer {
  @Expose() readonly id: string;
  @Expose() readonly name: string;
  constructor(id: string, name: string) {
    this.id = id;
    this.name = name;
  }

  @LlmTool({ description: 'Average spend.', effect: 'read_only', reveal: 'all' })
  getAverageSpend(): number {
    return 450;
  }
}

@Injectable()
@ToolProvider({ namespace: 'crm' })
class CustomerTools {
  @LlmTool({ description: 'Find customers.', effect: 'read_only', output: [Customer] })
  searchCustomers(
    @ToolInput() input: SearchInput,
    @ToolContext() context: ToolCallContext,
  ): Customer[] {
    return context.tenant === 'acme' ? [new Customer('c-123', input.name)] : [];
  }
}

describe('a run', () => {
  it('finds a customer, gains its tools and calls one', async () => {
    const model = new ScriptedModel([
      calls(call('crm__searchCustomers', { name: 'John Smith' })),
      calls(call('customer_c-123_getAverageSpend', {})),
      text('450'),
    ]);
    const moduleRef = await Test.createTestingModule({
      imports: [ToolLoopModule.forRoot({ model, policy: { allow: ['crm__*', 'customer_*_*'] } })],
      providers: [CustomerTools],
    }).compile();
    await moduleRef.init();
    const events = await collect(
      moduleRef
        .get(ToolLoopService)
        .stream({ prompt: 'Spend of John Smith?', actor: { id: 'a' }, tenant: 'acme' }),
    );
    expect(events.at(-1)).toMatchObject({ type: 'run-end', finishReason: 'stop', text: '450' });
    model.assertComplete();
  });
});
