import { describe, expect, it } from '@jest/globals';
import { LlmTool, ToolProvider } from '@toolloop/core';
import { ScriptedModel, call, calls, eventsOf, text } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import * as fc from 'fast-check';
import { cases } from '../../../../../test/cases.js';
import { RunEntityHandles } from '../../../src/plugins/entities/entity-handles.js';
import { play, resultsIn, type PlayedRun } from '../../fixtures/played-run.js';
import { Customer, Order } from '../../fixtures/shop.js';
import { ask, openShop } from '../../fixtures/shop.module.js';

/** Something with whatever id a test gives it. */
@ToolProvider({ prefix: 'item' })
class Item {
  @Expose() readonly id: unknown;
  constructor(id: unknown) {
    this.id = id;
  }

  @LlmTool({ description: 'Which item it is.', effect: 'read_only', reveal: 'all' })
  tell(): string {
    return `item ${String(this.id)}`;
  }
}

async function show(...items: object[]): Promise<PlayedRun> {
  const model = new ScriptedModel([calls(call('probe__show', { key: 'a' })), text('Done.')]);
  return play(await openShop(model, { entities: [Item] }), ask({ context: { act: () => items } }));
}

const UUID = '3f2b8c1e-9a4d-4c6b-8f7e-2d1c0b9a8e7f';

describe('the id of an entity in the id of its tools', () => {
  it.each([
    ['c-123', 'item_c-123_tell'],
    ['ABC', 'item_ABC_tell'],
    ['-', 'item_-_tell'],
    [7, 'item_7_tell'],
    [0, 'item_0_tell'],
    [-5, 'item_-5_tell'],
    [12345678901234567890n, 'item_12345678901234567890_tell'],
    ['x'.repeat(24), `item_${'x'.repeat(24)}_tell`],
  ])('%p stands as it is', async (id, tool) => {
    const { result } = await show(new Item(id));
    expect(result.injectedTools).toMatchObject([{ id: tool, description: 'Which item it is.' }]);
  });

  it.each([
    UUID,
    'x'.repeat(25),
    'zwölf',
    '日本',
    'two words',
    'under_score',
    'a/b',
    'a\nb',
    ' ',
    '"quoted"',
    '../../etc/passwd',
    'H2',
    'h99',
    1.5,
    1e21,
  ])('%p becomes a handle, and the description says what it stands for', async (id) => {
    const { events, result } = await show(new Item(id));
    expect(result.injectedTools).toMatchObject([
      {
        id: 'item_h1_tell',
        declaredId: 'item_*_tell',
        description: `Which item it is. (Item ${JSON.stringify(String(id))})`,
      },
    ]);
    expect(eventsOf(events, 'tools-injected')).toMatchObject([{ instanceId: String(id) }]);
  });

  it.each([[''], [undefined], [null], [{}], [true], [Symbol('s')]])(
    'cannot be %p: its tools are not added, and a warning says so',
    async (id) => {
      const { events, result } = await show(new Item(typeof id === 'symbol' ? undefined : id));
      expect(result.injectedTools).toEqual([]);
      expect(eventsOf(events, 'warning')).toMatchObject([
        { code: 'injection_failed', message: expect.stringMatching(/^A Item has no "id"/) },
      ]);
    },
  );

  it('is one warning, however many entities of a class have none', async () => {
    const { events } = await show(new Item(''), new Item(''), new Item(null));
    expect(eventsOf(events, 'warning')).toHaveLength(1);
  });

  it('keeps every tool within 64 characters, whatever the handle', async () => {
    const { result } = await show(
      ...Array.from({ length: 12 }, (_, index) => new Customer(`${UUID}${index}`, 'x')),
    );
    expect(result.injectedTools.at(-1)?.id).toBe('customer_h12_getRecentOrders');
    for (const { id } of result.injectedTools) expect(id).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
  });
});

describe('two ids', () => {
  it.each([
    ['c-123', 'c123'],
    ['a', 'A'],
    ['h1', UUID],
    ['a b', 'a_b'],
    ['a b', 'a  b'],
    ['ä', 'a\u0308'],
    ['x'.repeat(24), 'x'.repeat(25)],
    ['1', '01'],
  ])('%j and %j never share a tool', async (one, other) => {
    const { result } = await show(new Item(one), new Item(other));
    expect(new Set(result.injectedTools.map(({ id }) => id)).size).toBe(2);
  });

  it('never share a name, whatever they are (property)', () => {
    const like = fc.constantFrom('h1', 'h2', 'H1', 'h01', 'h1 ', 'h-1', 'c-1', 'c1', 'c_1', UUID);
    const id = fc.oneof(
      fc.string({ minLength: 1 }),
      fc.string({ minLength: 1, unit: 'binary' }),
      fc.uuid(),
      like,
    );
    fc.assert(
      fc.property(
        fc.uniqueArray(id, { minLength: 2, maxLength: 40 }),
        fc.integer({ min: 4, max: 24 }),
        (ids, maxLength) => {
          const handles = new RunEntityHandles();
          const name = (one: string) => handles.nameOf(Item, one, maxLength);
          const names = ids.map(name);
          expect(new Set(names).size).toBe(ids.length);
          expect(ids.toReversed().map(name)).toEqual(names.toReversed());
          for (const one of names)
            expect(one).toMatch(new RegExp(`^[A-Za-z0-9-]{1,${maxLength}}$`));
        },
      ),
      { numRuns: cases(500) },
    );
  });

  it('are the same when they belong to two classes', async () => {
    const { result } = await show(
      new Item('7'),
      new Order('7', 1),
      new Item('a b'),
      new Order('a b', 1),
    );
    const ids = result.injectedTools.map(({ id }) => id);
    expect(ids.filter((id) => id.startsWith('item'))).toEqual(['item_7_tell', 'item_h1_tell']);
    expect(ids.filter((id) => id.startsWith('order_h'))).toEqual([
      'order_h2_describe',
      'order_h2_getCustomer',
      'order_h2_cancel',
    ]);
  });
});

const look = (key: string) => calls(call('probe__show', { key }));
const tell = (handle: string) => calls(call(`item_${handle}_tell`));

describe('a handle', () => {
  it('is the same for the same entity for as long as the run lives, and leads to it', async () => {
    const items: Record<string, string[]> = { first: [UUID, 'a b'], second: ['ä', 'a b', UUID] };
    const model = new ScriptedModel([
      look('first'),
      tell('h2'),
      look('second'),
      tell('h1'),
      tell('h2'),
      tell('h3'),
      text('Done.'),
    ]);
    const loop = await openShop(model, { entities: [Item] });
    const { result, events } = await play(
      loop,
      ask({ context: { act: (key: string) => items[key]?.map((id) => new Item(id)) } }),
    );
    expect(resultsIn(result.messages).filter((content) => content.startsWith('item'))).toEqual([
      'item a b',
      `item ${UUID}`,
      'item a b',
      'item ä',
    ]);
    expect(eventsOf(events, 'tools-injected').map(({ instanceId }) => instanceId)).toEqual([
      UUID,
      'a b',
      'ä',
    ]);
  });

  it('stands for a very long id, which the description shows in part', async () => {
    const { result } = await show(new Item('x'.repeat(10_000)));
    expect(result.injectedTools[0]?.description).toBe(
      `Which item it is. (Item "${'x'.repeat(80)}")`,
    );
  });

  it('is kept for the instances that were returned last, of which a session may have any number, and is never given to another', () => {
    const handles = new RunEntityHandles();
    const nameOf = (id: number) => handles.nameOf(Item, `i/${id}`, 24);
    expect(nameOf(0)).toBe('h1');
    expect(nameOf(1)).toBe('h2');
    for (let id = 2; id < 4_000; id += 1) nameOf(id);
    expect([nameOf(0), nameOf(4_000)]).toEqual(['h1', 'h4001']); // takes the place of the second
    expect(handles.save()).toHaveLength(4_000);
    expect([nameOf(0), new RunEntityHandles(handles.save()).nameOf(Item, 'i/1', 24)]).toEqual([
      'h1',
      'h4002',
    ]);
  });

  it('begins at h1 in every run', () => {
    const handles = [new RunEntityHandles(), new RunEntityHandles()].map((run) =>
      run.nameOf(Item, UUID, 24),
    );
    expect(handles).toEqual(['h1', 'h1']);
  });
});
