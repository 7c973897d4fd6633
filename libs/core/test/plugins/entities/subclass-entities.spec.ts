import { describe, expect, it } from '@jest/globals';
import { LlmTool, tool, ToolProvider } from '@toolloop/core';
import { ScriptedModel, call, calls, eventsOf, text } from '@toolloop/testing';
import { Exclude, Expose, Type } from 'class-transformer';
import { play, resultsIn } from '../../fixtures/played-run.js';
import { ask, openShop } from '../../fixtures/shop.module.js';

/** An entity to which subclasses alone lead. */
@ToolProvider({ prefix: 'person' })
class Person {
  constructor(id: string) {
    this.id = id;
  }
  @Expose() readonly id: string;

  @LlmTool({ description: 'Greets.', effect: 'read_only', reveal: 'all' })
  greet(): string {
    return `hello ${this.id}`;
  }

  @LlmTool({
    description: 'The deal in which the person is.',
    effect: 'read_only',
    output: () => Deal,
  })
  deal(): unknown {
    return Object.assign(new Deal(), { party: new Single(new Person(`${this.id}-partner`)) });
  }
}

class Party {
  @Expose() label = 'a party';
}

class Single extends Party {
  @Expose() @Type(() => Person) person: unknown;
  undecorated: unknown = new Person('eve');
  @Expose({ groups: ['ui'] }) @Type(() => Person) forPeople: unknown = new Person('mal');

  constructor(person: unknown) {
    super();
    this.person = person;
  }
}

class Pair extends Party {
  @Expose() @Type(() => Person) people: unknown;
  @Expose() @Type(() => Party, kinds()) allies: unknown;

  constructor(people: unknown, allies?: unknown) {
    super();
    this.people = people;
    this.allies = allies;
  }
}

/** A class below one of those that are named. */
class Shy extends Single {
  @Exclude() override person: unknown;
}

class Loud extends Single {}

/** A class that none names. */
class Stray extends Party {
  @Expose() @Type(() => Person) person: unknown = new Person('sid');
}

function kinds() {
  return {
    discriminator: {
      property: 'kind',
      subTypes: [
        { name: 'single', value: Single },
        { name: 'pair', value: Pair },
      ],
    },
  };
}

class Deal {
  @Expose() @Type(() => Party, kinds()) party: unknown;
  @Expose() @Type(() => Party, kinds()) parties: unknown;
  @Expose() @Type(() => Party) base: unknown;
  @Expose() @Type(() => Deal) inner: unknown;
}

const deal = (fields: Partial<Deal>): Deal => Object.assign(new Deal(), fields);
const ann = new Person('ann');
const bob = new Person('bob');
const cid = new Person('cid');

/** The persons whose tools a result brings, and those that it shows. */
async function personsIn(
  result: unknown,
  output: readonly [typeof Deal] | typeof Deal = Deal,
): Promise<unknown> {
  const find = tool({
    id: 'deals__find',
    description: 'Finds.',
    effect: 'read_only',
    output: output as typeof Deal,
    execute: () => result,
  });
  const model = new ScriptedModel([calls(call('deals__find')), text('Done.')]);
  const { events, result: run } = await play(await openShop(model, { tools: [find] }), ask());
  expect(run.toolCalls).toMatchObject([{ status: 'succeeded' }]);
  const shown = [...(resultsIn(run.messages)[0] ?? '').matchAll(/\\?"id\\?":\\?"(\w+)/g)].map(
    ([, id]) => id,
  );
  return {
    brought: [...new Set(eventsOf(events, 'tools-injected').map(({ instanceId }) => instanceId))],
    shown: [...new Set(shown)],
  };
}

describe('an entity in a field that a subclass alone has', () => {
  it.each<[string, () => unknown, readonly string[]]>([
    ['in a field', () => deal({ party: new Single(ann) }), ['ann']],
    [
      'in a list',
      () => deal({ parties: [new Single(ann), new Pair([bob, cid])] }),
      ['ann', 'bob', 'cid'],
    ],
    ['in a Set', () => deal({ parties: new Set([new Single(ann)]) }), ['ann']],
    ['in a Map', () => deal({ parties: new Map([['first', new Single(ann)]]) }), ['ann']],
    ['in a list of a subclass', () => deal({ party: new Pair([ann, bob]) }), ['ann', 'bob']],
    [
      'in a subclass within another one',
      () => deal({ party: new Pair([ann], new Single(bob)) }),
      ['ann', 'bob'],
    ],
    [
      'in lists of both',
      () => deal({ parties: [new Pair([ann], [new Single(bob), new Pair([cid])])] }),
      ['ann', 'bob', 'cid'],
    ],
    [
      'in an object of the same class',
      () => deal({ inner: deal({ parties: [new Single(ann)] }) }),
      ['ann'],
    ],
    [
      'in a plain object that names its class',
      () => deal({ party: { kind: 'single', label: 'a party', person: ann } }),
      ['ann'],
    ],
    [
      'in a plain result',
      () => ({
        parties: [{ kind: 'pair', people: [ann], allies: { kind: 'single', person: bob } }],
      }),
      ['ann', 'bob'],
    ],
    ['in an instance of a class below it', () => deal({ party: new Loud(ann) }), ['ann']],
    ['which a class below it hides', () => deal({ party: new Shy(ann) }), []],
    ['of a class that is not named', () => deal({ party: new Stray() }), []],
    ['under a field that names no subclasses', () => deal({ base: new Single(ann) }), []],
    [
      'of a plain object that names no class',
      () => deal({ party: { kind: 'other', person: ann } }),
      [],
    ],
  ])('brings its tools if the model is shown it, and only then: %s', async (_, make, expected) => {
    expect(await personsIn(make())).toEqual({ brought: expected, shown: expected });
  });

  it('brings its tools from a list of results, too', async () => {
    const deals = [deal({ party: new Single(ann) }), deal({ parties: [new Pair([bob])] })];
    expect(await personsIn(deals, [Deal])).toEqual({
      brought: ['ann', 'bob'],
      shown: ['ann', 'bob'],
    });
  });

  it('brings its tools from the result of an entity, and they can be called', async () => {
    const find = tool({
      id: 'deals__find',
      description: 'Finds.',
      effect: 'read_only',
      output: Deal,
      execute: () => deal({ party: new Single(ann) }),
    });
    const model = new ScriptedModel([
      calls(call('deals__find')),
      calls(call('person_ann_deal')),
      calls(call('person_ann-partner_greet')),
      text('Done.'),
    ]);
    const { result } = await play(await openShop(model, { tools: [find] }), ask());
    expect(resultsIn(result.messages).at(-1)).toBe('hello ann-partner');
  });
});
