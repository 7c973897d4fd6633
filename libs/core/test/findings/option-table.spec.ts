import { describe, expect, it } from '@jest/globals';
import { ConfigurationError } from '@toolloop/core';
import {
  BOOLEAN,
  either,
  FUNCTION,
  listOf,
  listOfOptions,
  namedOptions,
  needed,
  NOT_NEGATIVE,
  oneOf,
  optionsOf,
  TEXT,
} from '../../src/findings/option-rules.js';
import { defineOptions, type OptionRule } from '../../src/findings/options.js';

interface Lamp {
  readonly colour?: 'red' | 'green';
  readonly watts?: number;
}

interface House {
  readonly street: string;
  readonly isLet?: boolean;
  readonly lamp?: Lamp;
  readonly lamps?: readonly Lamp[];
  readonly rooms?: Readonly<Record<string, Lamp>>;
  readonly greet?: (name: string) => string;
  readonly owner?: 'all' | readonly string[];
}

const LAMP = defineOptions<Lamp>({ colour: oneOf('red', 'green'), watts: NOT_NEGATIVE });
const HOUSE = defineOptions<House>(
  {
    street: needed(TEXT),
    isLet: BOOLEAN,
    lamp: optionsOf(LAMP, { isMerged: true }),
    lamps: listOfOptions(LAMP, 'a list of lamps'),
    rooms: namedOptions(LAMP, 'room'),
    greet: FUNCTION,
    owner: either(oneOf('all'), listOf(TEXT, 'a list of names')),
  },
  {
    elsewhere: {
      town: { problem: 'The town is no option of a house.', remedy: 'Say it of the street.' },
    },
    together: ({ isLet, owner }, at) =>
      isLet === true && owner === undefined
        ? [{ at, problem: 'It is let by nobody.', remedy: 'Give an owner.' }]
        : [],
  },
);

const told = (given: unknown): string[] =>
  HOUSE.findings(given, 'house').map(({ at, problem, remedy }) => `${at}: ${problem} ${remedy}`);

describe('a table of options', () => {
  it('finds nothing wrong with what is right, and takes undefined for what was left out', () => {
    expect(
      told({
        street: 'High Street',
        isLet: undefined,
        lamp: { watts: 0 },
        owner: ['Ada'],
        greet: () => 'Hi',
      }),
    ).toEqual([]);
  });

  it('tells everything at once: names, values, what is missing and what does not fit together', () => {
    expect(
      told({
        stret: 'x',
        town: 'York',
        isLet: true,
        owner: 'al',
        lamp: { colour: 'gren', wats: 1 },
      }),
    ).toEqual([
      'house: There is no option "stret". Did you mean "street"?',
      'house: The town is no option of a house. Say it of the street.',
      'house: It has no "street". Give a text.',
      'house lamp: There is no option "wats". Did you mean "watts"?',
      'house lamp: The option "colour" is "gren". Did you mean "green"?',
      'house: The option "owner" is "al". Did you mean "all"?',
      'house: It is let by nobody. Give an owner.',
    ]);
  });

  it('tells where in a list, and under which name, something is wrong', () => {
    expect(
      told({
        street: 'x',
        lamps: [{}, { watts: -1 }],
        rooms: { hall: { watts: NaN }, attic: null },
      }),
    ).toEqual([
      'house lamps[1]: The option "watts" is -1. Give a number that is not negative.',
      'house room "hall": The option "watts" is NaN. Give a number that is not negative.',
      'house room "attic": Its options are null. Give an object.',
    ]);
  });

  it.each([undefined, null, 5, 'x', []])('takes %j for no options', (given) => {
    expect(() => HOUSE.assert(given, 'house')).toThrow(ConfigurationError);
    expect(told(given)).toHaveLength(1);
  });

  it('takes a name that every object has for one that no option has', () => {
    expect(told({ street: 'x', constructor: 1, toString: 2 })).toHaveLength(2);
  });

  it('merges two levels: the inner one wins, and option by option where a rule says so', () => {
    const outer = {
      street: 'Outer',
      isLet: true,
      lamp: { colour: 'red', watts: 5 },
      rooms: { hall: {} },
    };
    const inner = {
      street: 'Inner',
      isLet: undefined,
      lamp: { watts: 7, colour: undefined },
      rooms: { attic: {} },
      other: 1,
    };
    expect(HOUSE.merge(outer, inner)).toEqual({
      street: 'Inner',
      isLet: true,
      lamp: { colour: 'red', watts: 7 },
      rooms: { attic: {} },
    });
    expect(outer.lamp).toEqual({ colour: 'red', watts: 5 });
  });

  it('copies its own options that are given, and those alone', () => {
    expect(Object.keys(HOUSE.copy({ street: 'x', isLet: undefined, other: 1 }))).toEqual([
      'street',
    ]);
  });

  it('keeps the options that are sound', () => {
    expect(HOUSE.sound({ street: 5, isLet: true, other: 1 })).toEqual({ isLet: true });
  });
});

describe('the type of a table', () => {
  it('does not compile without a rule for every option', () => {
    // @ts-expect-error `watts` has no rule
    expect(defineOptions<Lamp>({ colour: oneOf('red', 'green') })).toBeDefined();
  });

  it('does not compile with a rule for an option that does not exist', () => {
    const colour = oneOf('red', 'green');
    // @ts-expect-error there is no `shade`
    expect(defineOptions<Lamp>({ colour, watts: NOT_NEGATIVE, shade: TEXT })).toBeDefined();
  });

  it('does not compile where a rule takes fewer values than the option', () => {
    // @ts-expect-error green is missing
    expect(defineOptions<Lamp>({ colour: oneOf('red'), watts: NOT_NEGATIVE })).toBeDefined();
  });

  it('does not compile where a rule takes other values than the option', () => {
    // @ts-expect-error a text is not a number
    expect(defineOptions<Lamp>({ colour: oneOf('red', 'green'), watts: TEXT })).toBeDefined();
  });

  it('does not compile where a rule takes any text for a few words', () => {
    // @ts-expect-error the words are missing
    expect(defineOptions<Lamp>({ colour: TEXT, watts: NOT_NEGATIVE })).toBeDefined();
  });

  it('compiles where a rule takes more values than the option', () => {
    const more: OptionRule<number | string> = { wanted: 'something', accept: () => true };
    expect(defineOptions<Lamp>({ colour: oneOf('red', 'green'), watts: more })).toBeDefined();
  });
});
