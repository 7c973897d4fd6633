import { describe, expect, it } from '@jest/globals';
import type { Type as Class } from '@nestjs/common';
import { Exclude, Expose, Transform, Type, instanceToPlain } from 'class-transformer';
import * as fc from 'fast-check';
import type { Audience } from '@toolloop/protocol';
import { cases } from '../../../../test/cases.js';
import { AUDIENCES } from '../../src/schema/exposed-properties.js';
import { ProjectionCompiler } from '../../src/schema/result-projection.js';
import { compileReveal } from '../../src/schema/reveal.js';

class Person {
  @Expose() name = 'Ada';
  @Expose() email = 'ada@home.example';
}

class Hidden extends Person {
  @Exclude() override email = 'ada@home.example';
}

class ForTheAudit extends Person {
  @Expose({ groups: ['audit'] }) override email = 'ada@home.example';
}

class OnlyTaken extends Person {
  @Expose({ toClassOnly: true }) override email = 'ada@home.example';
}

class Masked extends Person {
  @Transform(() => '***') override email = 'ada@home.example';
}

/** A document of an ORM: it exposes nothing, and stands in for a Person. */
class Row {
  name = 'Ada';
  @Exclude() email = 'ada@home.example';
}

class Team {
  @Expose() @Type(() => Person) lead: unknown;
  @Expose() @Type(() => Person) members: unknown;

  constructor(one: unknown) {
    this.lead = one;
    this.members = [one, new Person()];
  }
}

function project(type: Class, value: unknown, audience: Audience = 'model', list = false): unknown {
  return new ProjectionCompiler().compile({ type, list, nullable: false }).project(value, audience);
}

function both(type: Class, value: unknown, observer?: () => void, list = false) {
  return new ProjectionCompiler()
    .compile({ type, list, nullable: false })
    .projectBoth?.(value, observer);
}

/** The same, made for model and ui at once. */
function atOnce(type: Class, value: unknown, audience: Audience, list: boolean): unknown {
  const projections = both(type, value, undefined, list);
  if (audience === 'audit') return project(type, value, audience, list);
  return audience === 'model' ? projections?.model : projections?.ui();
}

describe('invariant 18: what the class of an instance hides', () => {
  it.each<[string, object]>([
    ['a subclass with @Exclude()', new Hidden()],
    ['a subclass of such a subclass', new (class extends Hidden {})()],
    ['a subclass that shows it to others', new ForTheAudit()],
    ['a subclass that only takes it', new OnlyTaken()],
    ['another class with @Exclude() that stands in for the declared one', new Row()],
  ])('invariant 18: stays hidden where a tool declares the class above it: %s', (_, instance) => {
    const shown = { name: 'Ada' };
    expect(project(Person, instance)).toEqual(shown);
    expect(project(Person, [instance, new Person()], 'model', true)).toEqual([
      shown,
      { ...shown, email: 'ada@home.example' },
    ]);
    expect(project(Team, new Team(instance))).toEqual({
      lead: shown,
      members: [shown, { ...shown, email: 'ada@home.example' }],
    });
    expect(project(Team, { members: new Map([['a', instance]]) })).toEqual({
      members: { a: shown },
    });
  });

  it('is shown to the audiences that the subclass leaves it to', () => {
    expect(project(Person, new ForTheAudit(), 'audit')).toEqual({
      name: 'Ada',
      email: 'ada@home.example',
    });
    expect(project(Person, new ForTheAudit(), 'ui')).toEqual({ name: 'Ada' });
  });

  it('is masked where the subclass masks it', () => {
    expect(project(Person, new Masked())).toEqual({ name: 'Ada', email: '***' });
    expect(project(Team, { lead: new Masked() })).toEqual({ lead: { name: 'Ada', email: '***' } });
  });

  it('is hidden where a tool reveals it by name', () => {
    const reveal = compileReveal(['name', 'email']);
    expect(reveal.project([new Hidden(), new Row(), new Person()], 'model')).toEqual([
      { name: 'Ada' },
      { name: 'Ada' },
      { name: 'Ada', email: 'ada@home.example' },
    ]);
    expect(reveal.project(new ForTheAudit(), 'audit')).toEqual({
      name: 'Ada',
      email: 'ada@home.example',
    });
  });
});

const PROPERTIES = ['a', 'b', 'child'] as const;
type Property = (typeof PROPERTIES)[number];

const groups = fc.option(fc.subarray([...AUDIENCES], { minLength: 1 }), { nil: undefined });
const mark = fc.record({
  expose: fc.option(fc.record({ groups, toClassOnly: fc.boolean() }), { nil: undefined, freq: 2 }),
  exclude: fc.constantFrom(undefined, undefined, undefined, 'always', 'input' as const),
  transform: fc.option(fc.record({ groups }), { nil: undefined, freq: 1 }),
});
type Mark = typeof mark extends fc.Arbitrary<infer Value> ? Value : never;

const level = fc.record({
  strategy: fc.constantFrom(undefined, 'excludeAll', 'exposeAll'),
  marks: fc.record({ a: mark, b: mark, child: mark }),
});

/**
 * A chain of classes, of which one is declared and the same or one below it is the instance's own.
 */
const hierarchy = fc
  .array(level, { minLength: 1, maxLength: 4 })
  .chain((levels) =>
    fc.record({
      levels: fc.constant(levels),
      declared: fc.nat(levels.length - 1),
      own: fc.nat(levels.length - 1),
    }),
  )
  .map(({ levels, declared, own }) => ({
    levels,
    declared: Math.min(declared, own),
    own: Math.max(declared, own),
  }));
type Hierarchy = typeof hierarchy extends fc.Arbitrary<infer Value> ? Value : never;

function classesOf({ levels }: Hierarchy, child?: Class): Class[] {
  const classes: Class[] = [];
  for (const [index, { strategy, marks }] of levels.entries()) {
    const type: Class = class extends (classes[index - 1] ?? Object) {};
    if (strategy === 'excludeAll') Exclude()(type);
    if (strategy === 'exposeAll') Expose()(type);
    for (const property of PROPERTIES)
      decorate(type.prototype as object, property, { mark: marks[property], index });
    if (child && index === 0) Type(() => child)(type.prototype as object, 'child');
    classes.push(type);
  }
  return classes;
}

function decorate(
  prototype: object,
  property: Property,
  { mark: { expose, exclude, transform }, index }: { mark: Mark; index: number },
): void {
  if (expose)
    Expose({ toClassOnly: expose.toClassOnly, ...(expose.groups && { groups: expose.groups }) })(
      prototype,
      property,
    );
  if (exclude) Exclude({ toClassOnly: exclude === 'input' })(prototype, property);
  if (!transform || property === 'child') return;
  Transform(({ value }) => `${value}${index}`, transform.groups && { groups: transform.groups })(
    prototype,
    property,
  );
}

/** Whether the class at this place shows a property, told from the decorators alone. */
function shows({ levels }: Hierarchy, at: number, property: Property, audience: Audience): boolean {
  const marks = levels.slice(0, at + 1).map((one) => one.marks[property]);
  const exposure = marks.findLast(({ expose }) => expose)?.expose;
  const isExcluded = marks.some(({ exclude }) => exclude === 'always');
  return (
    exposure !== undefined &&
    !isExcluded &&
    !exposure.toClassOnly &&
    (exposure.groups?.includes(audience) ?? true)
  );
}

/** What may be shown of an instance, and of those within it. */
function expected(outer: Hierarchy, audience: Audience, child?: unknown): Record<string, unknown> {
  const shown = PROPERTIES.filter((property) =>
    [outer.declared, outer.own].every((at) => shows(outer, at, property, audience)),
  );
  const values = shown.map((property) => [
    property,
    property === 'child' ? child : transformed(outer, property, audience),
  ]);
  return Object.fromEntries(values.filter(([, value]) => value !== undefined)) as Record<
    string,
    unknown
  >;
}

function transformed({ levels, own }: Hierarchy, property: Property, audience: Audience): string {
  const applied = levels.slice(0, own + 1).flatMap(({ marks }, index) => {
    const { transform } = marks[property];
    return transform && (transform.groups?.includes(audience) ?? true) ? [String(index)] : [];
  });
  return [property, ...applied].join('');
}

function instanceOf(type: Class, child?: unknown): object {
  return Object.assign(Object.create(type.prototype as object) as object, {
    a: 'a',
    b: 'b',
    child,
  });
}

function entryOf<Value>(list: readonly Value[], index: number): Value {
  const [value] = list.slice(index);
  if (value === undefined) throw new RangeError(`There is nothing at ${index}.`);
  return value;
}

const exposesSomething = (one: Hierarchy): boolean =>
  PROPERTIES.some((property) =>
    AUDIENCES.some((audience) => shows(one, one.declared, property, audience)),
  );

describe('invariant 18: of any hierarchy', () => {
  it('invariant 18: a property is shown where the declared class shows it and the class of the instance does not hide it, nested and in lists as well', () => {
    fc.assert(
      fc.property(
        hierarchy,
        hierarchy.filter(exposesSomething),
        fc.boolean(),
        fc.boolean(),
        (outer, inner, isList, isOfList) => {
          const innerClasses = classesOf(inner);
          const classes = classesOf(outer, entryOf(innerClasses, inner.declared));
          const nested = instanceOf(entryOf(innerClasses, inner.own));
          const instance = instanceOf(
            entryOf(classes, outer.own),
            isOfList ? [nested, nested] : nested,
          );
          for (const audience of AUDIENCES) {
            const within = expected(inner, audience);
            const wanted = expected(outer, audience, isOfList ? [within, within] : within);
            const type = entryOf(classes, outer.declared);
            const result = isList ? [instance] : instance;
            expect(project(type, result, audience, isList)).toEqual(isList ? [wanted] : wanted);
            expect(atOnce(type, result, audience, isList)).toEqual(isList ? [wanted] : wanted);
          }
        },
      ),
      { numRuns: cases(300) },
    );
  });

  it("invariant 18: nothing is shown that class-transformer's own serializer would not show of the instance", () => {
    fc.assert(
      fc.property(hierarchy, fc.constantFrom(...AUDIENCES), (one, audience) => {
        const classes = classesOf(one);
        const instance = instanceOf(entryOf(classes, one.own));
        const plain = instanceToPlain(instance, { strategy: 'excludeAll', groups: [audience] });
        const shown = project(entryOf(classes, one.declared), instance, audience) as object;
        expect(Object.keys(plain)).toEqual(expect.arrayContaining(Object.keys(shown)));
      }),
      { numRuns: cases(300) },
    );
  });
});

class ForTheUi extends Person {
  @Expose({ groups: ['ui'] }) override email = 'ada@home.example';
}

class MaskedForTheUi extends Person {
  @Transform(() => '***', { groups: ['ui'] }) override email = 'ada@home.example';
}

class Watched {
  reads = 0;

  @Expose() get name(): string {
    this.reads += 1;
    return `Ada, read ${this.reads} times`;
  }
}

describe('the projections for model and ui at once', () => {
  it.each<[string, Class, object]>([
    ['a class that shows both the same', Person, new Person()],
    ['a class that hides it from both', Person, new Hidden()],
    ['a class that shows it to the ui alone', Person, new ForTheUi()],
    ['a class that masks it for the ui alone', Person, new MaskedForTheUi()],
    ['such a class within another, and in a list', Team, new Team(new ForTheUi())],
    ['a class that masks it within another', Team, new Team(new MaskedForTheUi())],
  ])('invariant 18: are those that each has by itself: %s', (_, type, instance) => {
    const projections = both(type, instance);
    expect(projections?.model).toEqual(project(type, instance, 'model'));
    expect(projections?.ui()).toEqual(project(type, instance, 'ui'));
  });

  it('are one where no class shows them otherwise, so that getters run once', () => {
    const watched = new Watched();
    const projections = both(Watched, watched);
    expect(projections?.ui()).toBe(projections?.model);
    expect(watched.reads).toBe(1);
  });

  it('are two where what is shown may be added to for the model', () => {
    const projections = both(Person, new Person(), () => undefined);
    expect(projections?.ui()).not.toBe(projections?.model);
  });
});
