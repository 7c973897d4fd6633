import { describe, expect, it } from '@jest/globals';
import type { Type as Class } from '@nestjs/common';
import { Exclude, Expose, Transform, Type } from 'class-transformer';
import type { Audience } from '@toolloop/protocol';
import { ProjectionError } from '../../src/schema/projection-walk.js';
import { ProjectionCompiler } from '../../src/schema/result-projection.js';

class Money {
  @Expose() readonly amount: number;
  @Expose() readonly currency: string;
  readonly ledger = 'internal';

  constructor(amount: number, currency = 'EUR') {
    this.amount = amount;
    this.currency = currency;
  }
}

class Customer {
  @Expose() id: string = 'c-1';
  @Expose() name = 'Ada';
  @Expose({ groups: ['model'] }) email = 'ada@acme.test';
  @Expose({ groups: ['ui', 'audit'] }) phone = '123';
  @Expose({ name: 'joined_on' }) joined = new Date('2026-01-02T03:04:05Z');
  @Expose() @Type(() => Order) orders: readonly Order[] = [];
  passwordHash = 'hash';

  @Expose() get initials(): string {
    return this.name.slice(0, 1);
  }
}

class Order {
  @Expose() number = 7;
  @Expose() total = new Money(12.5);
  @Expose() @Type(() => Customer) customer: Customer | null = null;
}

/** A class with one exposed property of that type, as a compiler would record it. */
function holder(designType: unknown, ...decorators: PropertyDecorator[]): Class {
  class Holder {
    declare value: unknown;
  }
  Reflect.defineMetadata('design:type', designType, Holder.prototype, 'value');
  for (const decorate of [Expose(), ...decorators]) decorate(Holder.prototype, 'value');
  return Holder;
}

function project(type: Class, value: unknown, audience: Audience = 'model'): unknown {
  return new ProjectionCompiler()
    .compile({ type, list: false, nullable: false })
    .project(value, audience);
}

function projectList(type: Class, value: unknown): unknown {
  return new ProjectionCompiler()
    .compile({ type, list: true, nullable: false })
    .project(value, 'model');
}

function errorOf(act: () => unknown): ProjectionError {
  try {
    act();
  } catch (error) {
    if (error instanceof ProjectionError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

function iterable(item: unknown): object {
  return {
    *[Symbol.iterator]() {
      yield item;
    },
  };
}

function findingsOf(type: Class): string[] {
  const { findings } = new ProjectionCompiler().compile({ type, list: false, nullable: false });
  return findings.map(({ problem, remedy }) => `${problem}. ${remedy}`);
}

describe('a projection', () => {
  it('shows an audience the exposed properties without a group and those of its group', () => {
    const common = {
      id: 'c-1',
      name: 'Ada',
      joined_on: '2026-01-02T03:04:05.000Z',
      orders: [],
      initials: 'A',
    };
    expect(project(Customer, new Customer(), 'model')).toEqual({
      ...common,
      email: 'ada@acme.test',
    });
    expect(project(Customer, new Customer(), 'ui')).toEqual({ ...common, phone: '123' });
    expect(project(Customer, new Customer(), 'audit')).toEqual({ ...common, phone: '123' });
  });

  it('projects nested classes by their own exposures, through classes that name each other', () => {
    const customer = new Customer();
    const order = new Order();
    order.customer = new Customer();
    customer.orders = [order];
    expect(project(Customer, customer)).toMatchObject({
      orders: [
        {
          number: 7,
          total: { amount: 12.5, currency: 'EUR' },
          customer: { id: 'c-1', orders: [] },
        },
      ],
    });
    expect(JSON.stringify(project(Customer, customer))).not.toMatch(/hash|ledger/);
  });

  it('projects plain objects and documents of an ORM by the declared class', () => {
    class CustomerDocument {
      readonly secret = 's';
      get name(): string {
        return 'Ada';
      }
    }
    expect(project(Customer, { id: 1, name: 'Ada', passwordHash: 'x', total: 3 })).toEqual({
      id: '1',
      name: 'Ada',
    });
    expect(project(Customer, new CustomerDocument())).toEqual({ name: 'Ada' });
  });

  it.each<[string, unknown, unknown]>([
    ['a Date', new Date(0), '1970-01-01T00:00:00.000Z'],
    ['a Date that is none', new Date(Number.NaN), null],
    ['a Date no RFC 3339 text can hold', new Date(8.64e15), null],
    ['a bigint', 2n ** 70n, '1180591620717411303424'],
    [
      'a Map',
      new Map<unknown, unknown>([
        ['a', 1],
        [2, [3n]],
      ]),
      { a: 1, 2: ['3'] },
    ],
    ['a Set', new Set([1, 'b']), [1, 'b']],
    ['null', null, null],
    ['NaN', Number.NaN, null],
    ['an infinity', Number.NEGATIVE_INFINITY, null],
    [
      'a plain object',
      { a: { b: [1, { c: undefined, d: null }] } },
      { a: { b: [1, { d: null }] } },
    ],
    ['an object without a prototype', Object.setPrototypeOf({ a: 1 }, null), { a: 1 }],
    [
      'an object of another realm',
      structuredClone({ a: new Map([['b', new Date(0)]]) }),
      { a: { b: '1970-01-01T00:00:00.000Z' } },
    ],
    ['gaps in a list', [1, undefined, () => 1, Symbol('s')], [1, null, null, null]],
    [
      'functions and symbols in an object',
      { a: () => 1, b: Symbol('s'), [Symbol('key')]: 1, c: 2 },
      { c: 2 },
    ],
    ['an instance that exposes something', new Money(1), { amount: 1, currency: 'EUR' }],
    ['instances in JSON', { lines: [new Money(1)] }, { lines: [{ amount: 1, currency: 'EUR' }] }],
    ['an instance whose JSON is a scalar', new URL('https://acme.test/a'), 'https://acme.test/a'],
  ])('turns %s of an unknown type into JSON', (_, value, json) => {
    expect(project(holder(Object), { value })).toEqual({ value: json });
    expect(project(holder(undefined), { value })).toEqual({ value: json });
  });

  it.each([
    ['undefined', undefined],
    ['a function', () => 1],
    ['a symbol', Symbol('s')],
  ])('leaves out a property that is %s', (_, value) => {
    for (const type of [Object, String, Number, Date, Money])
      expect(project(holder(type), { value })).toEqual({});
  });

  it('does not let a key named __proto__ through', () => {
    const value: unknown = JSON.parse('{"__proto__":{"polluted":true},"a":1}');
    const projected = project(holder(Object), { value: [value, new Map([['__proto__', 1]])] });
    expect(JSON.stringify(projected)).toBe('{"value":[{"a":1},{}]}');
    expect({}).not.toHaveProperty('polluted');
  });

  it.each([
    ['a list', [new Money(1), null], [{ amount: 1, currency: 'EUR' }, null]],
    ['a Set', new Set([new Money(2)]), [{ amount: 2, currency: 'EUR' }]],
    ['a Map', new Map([['a', [new Money(3)]]]), { a: [{ amount: 3, currency: 'EUR' }] }],
    ["an ORM's collection", iterable(new Money(4)), [{ amount: 4, currency: 'EUR' }]],
    ['one', { amount: 5, currency: 'USD', ledger: 'x' }, { amount: 5, currency: 'USD' }],
  ])('projects %s of what @Type() names', (_, value, json) => {
    expect(
      project(
        holder(
          Object,
          Type(() => Money),
        ),
        { value },
      ),
    ).toEqual({ value: json });
  });

  it('takes an iterable without exposures for a list of instances', () => {
    class Collection {
      private readonly owner = 'internal';
      *[Symbol.iterator]() {
        yield new Money(this.owner.length);
      }
    }
    expect(project(holder(Collection), { value: new Collection() })).toEqual({
      value: [{ amount: 8, currency: 'EUR' }],
    });
    expect(
      project(
        holder(
          Object,
          Type(() => Money),
        ),
        { value: new Collection() },
      ),
    ).toEqual({ value: [{ amount: 8, currency: 'EUR' }] });
  });

  it.each([
    [Number, '12.50', 12.5],
    [Number, 12n, 12],
    [String, 12, '12'],
    [String, new URL('https://acme.test/'), 'https://acme.test/'],
    [Boolean, 1, true],
    [Date, '2026-01-02', '2026-01-02T00:00:00.000Z'],
    [Date, 0, '1970-01-01T00:00:00.000Z'],
    [BigInt, 12n, '12'],
    [{ Open: 'open' }, 'open', 'open'],
  ])('gives a declared %p the form of that type where nothing is lost: %p', (type, value, json) => {
    expect(project(holder(type), { value })).toEqual({ value: json });
  });

  it.each([
    [Number, '12345678901234567890'],
    [Number, 'many'],
    [String, { a: 1 }],
    [Boolean, 2],
    [Date, '2026-01-02 03:04'],
    [Date, 'soon'],
  ])('refuses a declared %p that is %p', (type, value) => {
    expect(errorOf(() => project(holder(type), { value })).path).toBe('value');
  });
});

describe('a projection of lists and nulls', () => {
  const money = { amount: 1, currency: 'EUR' };

  it('takes arrays, Sets and other iterables for a declared list', () => {
    function* generate() {
      yield new Money(1);
    }
    for (const list of [[new Money(1)], new Set([new Money(1)]), generate()])
      expect(projectList(Money, list)).toEqual([money]);
    expect(projectList(Money, [null, new Money(1)])).toEqual([null, money]);
  });

  it.each([
    ['a string'],
    [new Money(1)],
    [new Map([['a', new Money(1)]])],
    [{ items: [] }],
    [Buffer.from('a')],
    [3],
  ])('refuses %p for a declared list', (value) => {
    expect(errorOf(() => projectList(Money, value)).message).toContain('it is not a list');
  });

  it('refuses nothing for something, unless it is nullable', () => {
    for (const value of [null, undefined]) {
      expect(errorOf(() => project(Money, value)).message).toContain(
        `it is ${String(value)}. Declare`,
      );
      expect(errorOf(() => projectList(Money, value)).message).toContain(
        '{ type: [Money], nullable: true }',
      );
      for (const list of [true, false]) {
        expect(
          new ProjectionCompiler()
            .compile({ type: Money, list, nullable: true })
            .project(value, 'ui'),
        ).toBeNull();
      }
    }
  });

  it.each([
    ['a list', [new Money(1)], 'is a list where one Money is declared'],
    ['a scalar', 'EUR', 'is a string where Money is declared'],
    ['a function', () => 1, 'is a function'],
    ['another exposed class', new Order(), 'is of the class Order where Money is declared'],
    ['a Date', new Date(), 'is of the class Date where Money is declared'],
    ['a Map', new Map(), 'is of the class Map where Money is declared'],
    ['a Promise', Promise.resolve(1), 'is a Promise'],
    ['bytes', Buffer.from('a'), 'is binary data'],
  ])('refuses %s for one declared object', (_, value, problem) => {
    expect(errorOf(() => project(Money, value)).message).toContain(problem);
  });

  it('refuses a list in a list, which the schema does not know', () => {
    expect(
      errorOf(() =>
        project(
          holder(
            Array,
            Type(() => Money),
          ),
          { value: [[new Money(1)]] },
        ),
      ).path,
    ).toBe('value.0');
    expect(errorOf(() => project(holder(Money), { value: [new Money(1)] })).path).toBe('value');
  });
});

describe('a projection with @Transform()', () => {
  class Account {
    @Expose() @Transform(({ value }: { value: string }) => `…${value.slice(-2)}`) iban = 'DE1234';
    @Expose()
    @Transform(({ value }: { value: string }) => value.length, { groups: ['model'] })
    note = 'abc';
    @Expose() @Transform(() => 'in', { toClassOnly: true }) kept = 'kept';
    @Expose()
    @Type(() => Money)
    @Transform(({ value }: { value: Money[] }) => value.slice(0, 1))
    moneys = [new Money(1), new Money(2)];
    @Expose() @Type(() => Money) @Transform(({ value }: { value: Money }) => value.amount) money =
      new Money(3);
    @Expose()
    @Type(() => Money)
    @Transform(({ value }: { value: object }) => ({ ...value, more: 'x' }))
    spread = new Money(4);
  }

  it('applies what is meant for plain objects and for the audience', () => {
    const common = {
      iban: '…34',
      kept: 'kept',
      moneys: [{ amount: 1, currency: 'EUR' }],
      money: 3,
      spread: { amount: 4, currency: 'EUR' },
    };
    expect(project(Account, new Account(), 'model')).toEqual({ ...common, note: 3 });
    expect(project(Account, new Account(), 'ui')).toEqual({ ...common, note: 'abc' });
  });

  it('keeps to itself what a transform threw', () => {
    const type = holder(
      String,
      Transform(() => {
        throw new Error('iban DE1234');
      }),
    );
    const error = errorOf(() => project(type, { value: 'x' }));
    expect(error).toMatchObject({
      path: 'value',
      subject: 'Holder',
      cause: new Error('iban DE1234'),
    });
    expect(error.message).not.toContain('DE1234');
  });
});

describe('the findings of a projection', () => {
  it('are none for sound classes', () => {
    expect(findingsOf(Customer)).toEqual([]);
  });

  it('name everything that is wrong with the class and those it leads to', () => {
    class Address {
      street = '';
    }
    @Expose()
    class Marked {
      street = '';
    }
    class Wrong {
      @Expose({ groups: ['modle'] }) typo = '';
      @Expose({ groups: ['admin'] }) unknown = '';
      @Expose({ groups: [] }) nobody = '';
      @Expose() @Transform(() => '', { groups: ['udit'] }) masked = '';
      @Expose() address?: Address;
      @Expose() @Type(() => Marked) marked?: Marked;
      @Expose() lazy?: Promise<Money>;
      @Expose() @Type(() => undefined as unknown as typeof Money) cycle?: Money;
      @Expose({ name: '__proto__' }) prototypical = '';
      @Expose() password(): string {
        return '';
      }
    }
    class Root {
      @Expose({ name: 'same' }) one = '';
      @Expose() same = '';
      @Expose() @Type(() => Wrong) wrong?: Wrong;
    }
    expect(findingsOf(Root)).toEqual([
      'Root exposes two properties as "same". Give one of them another name, or let no audience see both.',
      'Wrong.typo has the unknown group "modle". Did you mean "model"?',
      'Wrong.unknown has the unknown group "admin". Groups are model, ui and audit.',
      'Wrong.nobody has an empty list of groups. Name model, ui or audit, or leave the groups out.',
      'Wrong.masked has the unknown group "udit". Did you mean "audit"?',
      'Wrong.address is of the class Address, which exposes nothing. Put @Expose() on what may be shown of Address, or turn it into JSON with @Transform().',
      'Wrong.marked is of the class Marked, which exposes nothing. Put @Expose() on what may be shown of Marked, or turn it into JSON with @Transform().',
      'Wrong.lazy is a Promise. Await it into a field of its own and expose that.',
      'Wrong.cycle has a @Type() that names no class. Is its file part of an import cycle?',
      'Wrong.prototypical is exposed as "__proto__". Give it another name.',
      'Wrong.password() is a method with @Expose(). Methods are never called: make it a getter, or remove @Expose().',
    ]);
    expect(findingsOf(Marked)).toEqual([
      'Marked exposes no property. Put @Expose() on each property that may be shown; @Expose() on the class exposes none.',
    ]);
    expect(findingsOf(String)).toEqual([
      "String exposes no property. Declare `reveal: 'all'` instead of `output`.",
    ]);
  });

  it('let two properties share a name where no audience sees both', () => {
    class Masked {
      @Expose({ name: 'email', groups: ['ui'] }) masked = 'a…';
      @Expose({ groups: ['model', 'audit'] }) email = 'ada@acme.test';
    }
    expect(findingsOf(Masked)).toEqual([]);
    expect(project(Masked, new Masked(), 'ui')).toEqual({ email: 'a…' });
  });

  it('let @Exclude() win over @Expose()', () => {
    class Base {
      @Expose() kept = 1;
      @Exclude() hidden = 2;
      @Exclude({ toClassOnly: true }) @Expose() readable = 3;
    }
    class Derived extends Base {
      @Expose() override hidden = 2;
      @Expose({ toClassOnly: true }) input = 4;
      @Expose({ groups: ['ui'] }) override kept = 1;
    }
    expect(project(Base, new Base())).toEqual({ kept: 1, readable: 3 });
    expect(project(Derived, new Derived())).toEqual({ readable: 3 });
    expect(project(Derived, new Derived(), 'ui')).toEqual({ kept: 1, readable: 3 });
  });
});
