import { describe, expect, it } from '@jest/globals';
import type { Type as Class } from '@nestjs/common';
import { Expose, Type } from 'class-transformer';
import { AUDIENCES } from '../../src/schema/exposed-properties.js';
import { ProjectionError } from '../../src/schema/projection-walk.js';
import { ProjectionCompiler } from '../../src/schema/result-projection.js';

const SECRET = 'S3CRET';

/** What every audience together may see, as text; or what was thrown. */
function everythingThatLeaves(type: Class, value: unknown): string {
  const projection = new ProjectionCompiler().compile({ type, list: false, nullable: false });
  return AUDIENCES.map((audience) => {
    try {
      return JSON.stringify(projection.project(value, audience));
    } catch (error) {
      return String(error);
    }
  }).join();
}

function errorOf(type: Class, value: unknown): ProjectionError {
  try {
    new ProjectionCompiler()
      .compile({ type, list: false, nullable: false })
      .project(value, 'model');
  } catch (error) {
    if (error instanceof ProjectionError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

function fail(): never {
  throw new Error(SECRET);
}

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

function* endless(): Iterable<number> {
  for (;;) yield 1;
}

class Throwing {
  readonly [Symbol.iterator] = fail;
}

class Thenable {
  // oxlint-disable-next-line unicorn/no-thenable -- that is what is tested
  then(): string {
    return SECRET;
  }
}

class Repository {
  readonly url = SECRET;
}

class Customer {
  readonly touched: string[] = [];
  @Expose() name: string = 'Ada';
  @Expose({ groups: ['nobody'] }) margin: string = SECRET;
  passwordHash = SECRET;
  readonly #secret = SECRET;

  constructor(private readonly repository = new Repository()) {}

  get undecorated(): string {
    this.touched.push('undecorated');
    return this.#secret;
  }

  @Expose() password(): string {
    this.touched.push('password');
    return SECRET;
  }

  toJSON(): object {
    this.touched.push('toJSON');
    return { passwordHash: this.passwordHash, repository: this.repository };
  }

  toString(): string {
    this.touched.push('toString');
    return SECRET;
  }
}

class VipCustomer extends Customer {
  @Expose() discount: string = SECRET;
  override passwordHash = `${SECRET}!`;
}

class Holder {
  @Expose() one: Customer;
  @Expose() @Type(() => Customer) many: unknown;
  @Expose() any: unknown;

  constructor(content: unknown) {
    this.one = content as Customer;
    this.many = [content, new Set([content]).values().next().value];
    this.any = { deep: [content] };
  }
}

describe('what no audience ever sees', () => {
  it('is undecorated, private, of a group that is none, or a method; and none of it is touched', () => {
    const customer = new Customer();
    const holder = new Holder(customer);
    expect(everythingThatLeaves(Customer, customer)).toBe(
      '{"name":"Ada"},{"name":"Ada"},{"name":"Ada"}',
    );
    expect(everythingThatLeaves(Holder, holder)).not.toContain(SECRET);
    expect(everythingThatLeaves(Holder, holder)).toContain('Ada');
    expect(customer.touched).toEqual([]);
  });

  it('is what only the subclass of a declared class has', () => {
    const holder = new Holder(new VipCustomer());
    holder.any = undefined;
    expect(everythingThatLeaves(Customer, new VipCustomer())).not.toContain(SECRET);
    expect(everythingThatLeaves(Holder, holder)).not.toContain(SECRET);
  });

  it('is what a plain object has beside the exposed properties of its declared class', () => {
    const plain = {
      name: 'Ada',
      passwordHash: SECRET,
      [Symbol('s')]: SECRET,
      toJSON: () => SECRET,
    };
    expect(
      everythingThatLeaves(Holder, { one: plain, many: new Map([['a', plain]]) }),
    ).not.toContain(SECRET);
  });

  it.each<[string, unknown]>([
    ['an instance that exposes nothing', new Repository()],
    [
      'an instance whose JSON is an object',
      Object.assign(new Repository(), { toJSON: () => ({ url: SECRET }) }),
    ],
    ['an error', new Error(SECRET)],
    ['a Promise', Promise.resolve(SECRET)],
    ['a thenable', new Thenable()],
    ['bytes', Buffer.from(SECRET)],
    ['a view of bytes', new Uint8Array([1])],
    ['a stream', new Blob([SECRET]).stream()],
    ['a Map under a key that is an object', new Map([[new Repository(), SECRET]])],
    ['a boxed scalar', Object(1)],
  ])('is %s, which is refused', (_, value) => {
    const error = errorOf(Holder, { any: [value] });
    expect(error.path).toMatch(/^any\.0(\.\*)?$/);
    expect(error.message).not.toContain(SECRET);
    expect(everythingThatLeaves(Holder, { many: value })).not.toContain(SECRET);
  });

  it('is what a getter throws', () => {
    class Hostile {
      @Expose() get value(): string {
        throw new Error(SECRET);
      }
    }
    const error = errorOf(Hostile, new Hostile());
    expect(error.message).toBe(
      'Cannot project "value" of Hostile: it threw when it was read. See the cause.',
    );
    expect(error.cause).toEqual(new Error(SECRET));
  });

  it.each<[string, unknown]>([
    ['an iterator', new Throwing()],
    ['a toJSON()', Object.assign(new Repository(), { toJSON: fail })],
    ['a proxy', new Proxy({}, { getPrototypeOf: fail })],
    ['a revoked proxy', revoked()],
  ])('is what %s throws', (_, value) => {
    for (const shape of [{ any: value }, { many: value }, { one: value }]) {
      expect(everythingThatLeaves(Holder, shape)).not.toContain(SECRET);
    }
    expect(errorOf(Holder, { any: value })).toBeInstanceOf(ProjectionError);
  });
});

describe('what has no end', () => {
  class Node {
    @Expose() name: string;
    @Expose() @Type(() => Node) next: unknown;
    @Expose() any: unknown;

    constructor(name: string, next?: unknown) {
      this.name = name;
      this.next = next;
    }
  }

  function chain(length: number): Node {
    let node = new Node('last');
    for (let count = 1; count < length; count += 1) node = new Node('n', node);
    return node;
  }

  it('ends at the place where a cycle closes', () => {
    const first = new Node('first');
    first.next = [new Node('second', first)];
    const error = errorOf(Node, first);
    expect(error.path).toBe('next.0.next');
    expect(error.message).toContain('is an object that it is itself a part of');
  });

  it.each([
    ['an array', (list: unknown[]) => list.push(list), [] as unknown[]],
    ['a Map', (map: Map<string, unknown>) => map.set('a', map), new Map<string, unknown>()],
    ['a Set', (set: Set<unknown>) => set.add(set), new Set<unknown>()],
    ['an object', (object: { self?: unknown }) => (object.self = object), {}],
  ] as [string, (value: object) => unknown, object][])(
    'finds %s within itself',
    (_, close, value) => {
      close(value);
      expect(errorOf(Node, { any: value }).message).toContain(
        'is an object that it is itself a part of',
      );
    },
  );

  it('is not a thing that is there twice', () => {
    const shared = { a: 1 };
    const projection = new ProjectionCompiler().compile({
      type: Node,
      list: false,
      nullable: false,
    });
    expect(projection.project({ any: [shared, shared] }, 'model')).toEqual({
      any: [shared, shared],
    });
  });

  it('ends at 64 levels', () => {
    const projection = new ProjectionCompiler().compile({
      type: Node,
      list: false,
      nullable: false,
    });
    expect(JSON.stringify(projection.project(chain(64), 'model'))).toContain('last');
    expect(errorOf(Node, chain(65)).message).toContain('lies more than 64 levels deep');
    expect(errorOf(Node, chain(100_000))).toBeInstanceOf(ProjectionError);
    let deep: unknown = [];
    for (let level = 0; level < 100_000; level += 1) deep = [deep];
    expect(errorOf(Node, { any: deep })).toBeInstanceOf(ProjectionError);
  });

  it('ends where a getter gives a new object each time', () => {
    class Endless {
      @Expose() @Type(() => Endless) get next(): Endless {
        return new Endless();
      }
    }
    expect(errorOf(Endless, new Endless()).message).toContain('lies more than 64 levels deep');
  });

  it('ends at 100000 values', () => {
    let doubled: unknown = [1];
    for (let level = 0; level < 40; level += 1) doubled = [doubled, doubled];
    for (const any of [
      endless(),
      doubled,
      Array.from({ length: 100_001 }),
      new Set(Array.from({ length: 100_001 }).keys()),
    ]) {
      expect(errorOf(Node, { any }).message).toContain(
        'is past the 100000 values a result may hold',
      );
    }
  });
});
