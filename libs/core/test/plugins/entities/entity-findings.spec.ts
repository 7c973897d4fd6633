import { describe, expect, it } from '@jest/globals';
import type { Type } from '@nestjs/common';
import { Expose, Type as TypeOf } from 'class-transformer';
import { LlmTool, ToolLoopModule, ToolProvider, type ToolProviderOptions } from '@toolloop/core';
import { findingsOf, start } from '../../tools/application.js';

const fine = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;

/** An entity class of that name with one tool. */
function entity(name: string, options: ToolProviderOptions = {}, tool = 'getIt'): Type {
  @ToolProvider(options)
  class Entity {
    @Expose() id = '1';
    @LlmTool({ ...fine, name: tool }) getIt(): number {
      return 1;
    }
  }
  Object.defineProperty(Entity, 'name', { value: name });
  return Entity;
}

describe('invariant 4: an entity class at bootstrap', () => {
  it('invariant 4: is refused with the prefix of another', async () => {
    const entities = [entity('Customer', { prefix: 'c' }), entity('Cart', { prefix: 'c' })];
    expect(await findingsOf({ imports: [ToolLoopModule.forFeature({ entities })] })).toEqual([
      {
        at: 'Cart',
        problem: 'Its prefix "c" is already that of Customer.',
        remedy: 'Give one of them another: @ToolProvider({ prefix }).',
      },
    ]);
  });

  it('invariant 4: is refused with a prefix or a tool that differs from another only in case', async () => {
    @ToolProvider({ prefix: 'C' })
    class Cart {
      @Expose() id = '1';
      @LlmTool(fine) spend(): void {}
      @LlmTool({ ...fine, name: 'Spend' }) spending(): void {}
    }
    const imports = [
      ToolLoopModule.forFeature({ entities: [entity('Customer', { prefix: 'c' }), Cart] }),
    ];
    expect((await findingsOf({ imports })).map(({ at, problem }) => `${at}: ${problem}`)).toEqual([
      'Cart.spending: Its id "C_*_Spend" differs only in case from "C_*_spend", the id of Cart.spend.',
      'Cart: Its prefix "C" is already that of Customer, but for its case.',
    ]);
  });

  it('invariant 4: is refused with a prefix that is a namespace', async () => {
    @ToolProvider({ namespace: 'customer' })
    class CustomerTools {
      @LlmTool(fine) search(): void {}
    }
    const imports = [ToolLoopModule.forFeature({ entities: [entity('Customer')] })];
    expect(await findingsOf({ imports, providers: [CustomerTools] })).toEqual([
      {
        at: 'Customer',
        problem: 'Its prefix "customer" is also the namespace of CustomerTools.',
        remedy: 'Give the service another namespace: @ToolProvider({ namespace }).',
      },
    ]);
  });

  it('invariant 4: is refused with a prefix that a namespace begins with, since a policy for one would match the other', async () => {
    @ToolProvider({ namespace: 'order_desk' })
    class OrderDesk {
      @LlmTool(fine) cancel(): void {}
    }
    const imports = [ToolLoopModule.forFeature({ entities: [entity('Order')] })];
    expect(await findingsOf({ imports, providers: [OrderDesk] })).toEqual([
      {
        at: 'OrderDesk.cancel',
        problem:
          'Its id "order_desk__cancel" begins like the tool ids of the entity Order, whose prefix is "order": a policy for one would match the other.',
        remedy:
          'Give one of them another name: @ToolProvider({ namespace }) or @ToolProvider({ prefix }).',
      },
    ]);
  });

  it('invariant 4: is refused when it is undefined, as where files import each other in a circle', async () => {
    const entities: Type[] = [entity('Customer')];
    Reflect.set(entities, 1, undefined);
    const findings = await findingsOf({ imports: [ToolLoopModule.forFeature({ entities })] });
    expect(findings).toEqual([
      expect.objectContaining({ problem: expect.stringContaining('is undefined') }),
    ]);
  });

  it.each(['my_customer', 'my-customer', '1customer', ''])(
    'invariant 4: is refused with the prefix %j',
    async (prefix) => {
      const imports = [ToolLoopModule.forFeature({ entities: [entity('Customer', { prefix })] })];
      expect(await findingsOf({ imports })).toEqual([
        {
          at: 'Customer',
          problem: `"${prefix}" is not a valid prefix.`,
          remedy: 'Use letters and digits, a letter first: @ToolProvider({ prefix }).',
        },
      ]);
    },
  );

  it('invariant 4: is refused when it is in forFeature and not marked', async () => {
    class Plain {
      id = '1';
    }
    expect(
      await findingsOf({ imports: [ToolLoopModule.forFeature({ entities: [Plain] })] }),
    ).toEqual([
      {
        at: 'Plain',
        problem: 'It is listed in forFeature({ entities }) but is not a provider of tools.',
        remedy: 'Mark it @ToolProvider().',
      },
    ]);
  });

  it('invariant 4: is refused when it is marked and has no tools', async () => {
    @ToolProvider()
    class Empty {
      @Expose() id = '1';
    }
    expect(
      await findingsOf({ imports: [ToolLoopModule.forFeature({ entities: [Empty] })] }),
    ).toMatchObject([{ at: 'Empty', problem: 'It is marked @ToolProvider() and has no tools.' }]);
  });

  it('invariant 4: is refused with a namespace', async () => {
    const imports = [
      ToolLoopModule.forFeature({ entities: [entity('Customer', { namespace: 'crm' })] }),
    ];
    expect(await findingsOf({ imports })).toMatchObject([
      { at: 'Customer', problem: 'It is an entity and has a namespace.' },
    ]);
  });

  it('invariant 4: is refused when its ids cannot fit 64 characters', async () => {
    const imports = [
      ToolLoopModule.forFeature({ entities: [entity('Customer', {}, 'n'.repeat(49))] }),
    ];
    expect(await findingsOf({ imports })).toEqual([
      {
        at: 'Customer',
        problem:
          'Its prefix and its longest tool name leave no room for an id within 64 characters.',
        remedy: 'Shorten the prefix or the name.',
      },
    ]);
  });

  it('invariant 4: is accepted with room for a handle', async () => {
    const module = await start({
      imports: [ToolLoopModule.forFeature({ entities: [entity('Customer', {}, 'n'.repeat(48))] })],
    });
    expect(module).toBeDefined();
  });

  it.each([[[]], [['a', 'a']], [['']], ['']])(
    'invariant 4: is refused when %j identifies it',
    async (instanceIdProperty) => {
      const imports = [
        ToolLoopModule.forFeature({ entities: [entity('Customer', { instanceIdProperty })] }),
      ];
      expect(await findingsOf({ imports })).toMatchObject([
        {
          at: 'Customer',
          problem: `Its instanceIdProperty is ${JSON.stringify(instanceIdProperty)}.`,
        },
      ]);
    },
  );

  it('invariant 4: is refused with a tool of an unsafe name', async () => {
    const imports = [ToolLoopModule.forFeature({ entities: [entity('Customer', {}, 'a b')] })];
    expect(await findingsOf({ imports })).toMatchObject([
      { at: 'Customer.getIt', problem: '"a b" is not a safe name for a tool.' },
    ]);
  });

  it('invariant 4: is refused with two tools of one name', async () => {
    @ToolProvider()
    class Customer {
      @Expose() id = '1';
      @LlmTool(fine) spend(): void {}
      @LlmTool({ ...fine, name: 'spend' }) spending(): void {}
    }
    expect(
      await findingsOf({ imports: [ToolLoopModule.forFeature({ entities: [Customer] })] }),
    ).toEqual([
      {
        at: 'Customer.spending',
        problem: 'Its id "customer_*_spend" is also the id of Customer.spend.',
        remedy: 'Give one of them another name: @LlmTool({ name }).',
      },
    ]);
  });
});

describe('invariant 4: the findings of an entity class', () => {
  it('invariant 4: are there when only an output leads to it, through a field', async () => {
    @ToolProvider()
    class Line {
      @Expose() id = '1';
      // @ts-expect-error an effect is required
      @LlmTool({ description: 'x', reveal: 'all' }) price(): void {}
    }
    class Order {
      @Expose() @TypeOf(() => Line) lines: Line[] = [];
    }
    @ToolProvider({ namespace: 'desk' })
    class DeskTools {
      @LlmTool({ description: 'x', effect: 'read_only', output: [Order] }) search(): Order[] {
        return [];
      }
    }
    expect(await findingsOf({ providers: [DeskTools] })).toMatchObject([
      { at: 'Line.price', problem: 'The tool declares no effect.' },
    ]);
  });

  it('invariant 4: are there when the tools of another entity lead to it', async () => {
    @ToolProvider()
    class Invoice {
      @Expose() id = '1';
      @LlmTool({ ...fine, description: '' }) total(): void {}
    }
    @ToolProvider()
    class Customer {
      @Expose() id = '1';
      @LlmTool({ description: 'x', effect: 'read_only', output: () => [Invoice] })
      invoices(): Invoice[] {
        return [];
      }
    }
    expect(
      await findingsOf({ imports: [ToolLoopModule.forFeature({ entities: [Customer] })] }),
    ).toMatchObject([{ at: 'Invoice.total', problem: 'The tool has no description.' }]);
  });

  it('invariant 4: are told beside those of the tool that returns it', async () => {
    @ToolProvider()
    class Invoice {
      @Expose() id = '1';
      @LlmTool({ ...fine, description: '' }) total(): void {}
    }
    @ToolProvider()
    class Customer {
      @Expose() id = '1';
      @LlmTool({ description: '', effect: 'read_only', output: Invoice }) invoice(): void {}
    }
    @ToolProvider({ namespace: 'crm' })
    class CrmTools {
      @LlmTool({ description: '', effect: 'read_only', output: Customer }) find(): void {}
    }
    expect((await findingsOf({ providers: [CrmTools] })).map(({ at }) => at)).toEqual([
      'CrmTools.find',
      'Customer.invoice',
      'Invoice.total',
    ]);
  });
});
