import { types } from 'node:util';
import type { Type } from '@nestjs/common';
import { type Audience, type Finding, isObject, type JsonValue } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { ResultProjector } from '../contracts/result-projector.js';
import type { ResolvedOutput } from '../tools/decorators/resolved-output.js';
import { outputSchema, toDeclaredScalar } from './output-schema.js';
import {
  classOf,
  exposedPropertiesOf,
  type ExposedProperty,
  exposureFindings,
  hiddenPropertiesOf,
  isVisibleTo,
  type Kind,
  type Kinds,
  type PropertyShape,
  type PropertyTransform,
  prototypeOf,
  shapeFor,
  transformsOf,
} from './exposed-properties.js';
import {
  type Conversion,
  convertEntries,
  convertItems,
  convertIterable,
  dateToJson,
  findUnready,
  isPlain,
  JsonCopy,
  nameOfClass,
  scalarOfInstance,
  scalarToJson,
} from './json-copy.js';
import { type ProjectionKey, ProjectionWalk } from './projection-walk.js';

/**
 * Turns live results into the JSON each audience may see: only properties that the declared class
 * marks `@Expose()`, nothing else, whatever the instance carries.
 *
 * - An instance of a subclass shows what the declared class exposes, read from the instance; so
 *   does a plain object, and an instance of a class that exposes nothing itself, such as a document
 *   of an ORM. An instance of an unrelated class with exposures of its own is a mistake.
 * - A property that the instance's own class hides or masks, by `@Exclude()`, groups or
 *   `@Transform()`, stays hidden or masked under every declared class.
 * - A property without a known class holds JSON, or instances that are projected by the exposures
 *   of their own class.
 * - Methods are never called. The only code that runs are getters, `@Transform()` functions,
 *   iterators, and `toJSON()` of classes that expose nothing, which must return a scalar.
 * - A value that no rule covers is a `ProjectionError`: nothing leaves.
 *
 * Create one per application: every class, and every declared output, is compiled once.
 */
export class ProjectionCompiler {
  private readonly plans = new WeakMap<Type, ClassPlan>();
  private readonly projections = new WeakMap<Type, Map<string, CompiledProjection>>();
  private readonly json = new JsonCopy((instance, key, walk) => this.instance(instance, key, walk));

  compile(output: ResolvedOutput): CompiledProjection {
    const ofType = this.projections.get(output.type) ?? new Map<string, CompiledProjection>();
    this.projections.set(output.type, ofType);
    const form = `${output.list} ${output.nullable}`;
    const projection = ofType.get(form) ?? this.projection(output);
    ofType.set(form, projection);
    return projection;
  }

  private projection(output: ResolvedOutput): CompiledProjection {
    const plan = this.planOf(output.type);
    const schema = outputSchema(output);
    // they are filled in for the model alone
    const hasDefaults = JSON.stringify(schema).includes('"default":');
    const projected = (value: unknown, walk: ProjectionWalk): JsonValue => {
      try {
        return this.result(value, output, plan, walk);
      } catch (cause) {
        throw walk.failure(cause);
      }
    };
    const project: ResultProjector['project'] = (value, audience, shown) =>
      projected(value, new ProjectionWalk(output.type.name, audience, shown));
    return {
      declared: output.type,
      schema,
      findings: exposureFindings(output.type),
      project,
      projectBoth: (value, shown) => {
        const walk = new ProjectionWalk(output.type.name, 'model', shown);
        const model = projected(value, walk);
        // what is shown may be added to
        const isShared = !walk.isForOneReader && !hasDefaults && !shown;
        return { model, ui: () => (isShared ? model : project(value, 'ui')) };
      },
    };
  }

  private result(
    value: unknown,
    output: ResolvedOutput,
    plan: ClassPlan,
    walk: ProjectionWalk,
  ): JsonValue {
    if (value === null || value === undefined) {
      if (output.nullable) return null;
      const declared = output.list ? `[${plan.type.name}]` : plan.type.name;
      throw walk.refuse(
        undefined,
        `is ${String(value)}`,
        `Declare \`output: { type: ${declared}, nullable: true }\`, or throw a ToolError.`,
      );
    }
    if (output.list) return this.list(value, walk, plan);
    const json = this.object(value, undefined, walk, plan);
    if (json !== undefined) return json;
    throw walk.refuse(
      undefined,
      `is a ${typeof value}`,
      `Return an instance of ${plan.type.name}.`,
    );
  }

  private list(value: unknown, walk: ProjectionWalk, plan: ClassPlan): JsonValue {
    const item: Conversion = (entry, key) => this.object(entry, key, walk, plan);
    if (Array.isArray(value)) return convertItems(value, undefined, walk, item);
    if (isIterable(value) && !types.isMap(value) && !findUnready(value))
      return convertIterable(value, undefined, walk, item);
    throw walk.refuse(
      undefined,
      'is not a list',
      `Return a list, or declare \`output: ${plan.type.name}\`.`,
    );
  }

  /** Projects an object of a known class; undefined for a value that JSON leaves out. */
  private object(
    value: unknown,
    key: ProjectionKey,
    walk: ProjectionWalk,
    plan: ClassPlan,
  ): JsonValue | undefined {
    if (isObject(value)) {
      this.checkClass(value, key, walk, plan);
      return this.fields(value, key, walk, plan);
    }
    const scalar = scalarToJson(value);
    if (scalar === null || scalar === undefined) return scalar;
    throw walk.refuse(
      key,
      `is a ${typeof value} where ${plan.type.name} is declared`,
      `Load the ${plan.type.name}, or declare what it is.`,
    );
  }

  private fields(
    source: Readonly<Record<string, unknown>>,
    key: ProjectionKey,
    walk: ProjectionWalk,
    plan: ClassPlan,
  ): JsonValue {
    walk.enter(source, key);
    const projected: Record<string, JsonValue> = {};
    const fields = fieldsOf(source, plan);
    if (!fields.isForBoth) walk.isForOneReader = true;
    for (const { property, name, transforms, convert } of fields[walk.audience]) {
      let value = walk.read(source, property);
      for (const transform of transforms) {
        const current = value;
        value = walk.attempt(property, 'in its @Transform()', () =>
          transform.apply(current, source, walk.audience),
        );
      }
      const json = value === undefined ? undefined : convert(value, property, walk);
      if (json !== undefined) projected[name] = json;
    }
    walk.leave();
    walk.show(source, projected);
    return projected;
  }

  /** Projects an instance where no class is declared. */
  private instance(instance: object, key: ProjectionKey, walk: ProjectionWalk): JsonValue {
    const plan = this.ownPlanOf(instance);
    if (plan && isObject(instance)) return this.fields(instance, key, walk, plan);
    const unready = findUnready(instance);
    if (unready) throw walk.refuse(key, unready.problem, unready.remedy);
    if (isIterable(instance))
      return convertIterable(instance, key, walk, (item, index) =>
        this.json.value(item, index, walk),
      );
    const scalar = scalarOfInstance(instance, key, walk);
    if (scalar !== undefined) return scalar;
    const name = nameOfClass(instance);
    const remedy = `Put @Expose() on what may be shown of ${name}, name another class with @Type(), or turn it into JSON with @Transform().`;
    throw walk.refuse(key, `is an instance of ${name}, which exposes nothing`, remedy);
  }

  private checkClass(
    value: object,
    key: ProjectionKey,
    walk: ProjectionWalk,
    plan: ClassPlan,
  ): void {
    if (isInstance(value, plan) || (isPlain(value) && !Array.isArray(value))) return;
    const { name } = plan.type;
    if (Array.isArray(value))
      throw walk.refuse(
        key,
        `is a list where one ${name} is declared`,
        `Declare \`[${name}]\`, or name the class with @Type().`,
      );
    const unready = findUnready(value);
    if (unready) throw walk.refuse(key, unready.problem, unready.remedy);
    if (types.isDate(value) || types.isMap(value) || types.isSet(value) || this.ownPlanOf(value)) {
      const actual = nameOfClass(value);
      throw walk.refuse(
        key,
        `is of the class ${actual} where ${name} is declared`,
        `Return a ${name}, or declare ${actual}.`,
      );
    }
  }

  /** Returns the plan of an instance's own class, if that class exposes anything. */
  private ownPlanOf(instance: object): ClassPlan | undefined {
    const type = classOf(instance);
    const plan = type && this.planOf(type);
    return plan?.exposesAnything ? plan : undefined;
  }

  private planOf(type: Type): ClassPlan {
    const known = this.plans.get(type);
    if (known) return known;
    const properties = exposedPropertiesOf(type);
    const fieldsFor = (audience: Audience) =>
      properties.flatMap((property) => this.fieldFor(property, audience));
    const fields = fieldsBy(fieldsFor);
    const narrowed = new WeakMap<Type, Fields>();
    const plan = {
      type,
      prototype: prototypeOf(type),
      exposesAnything: properties.length > 0,
      fields,
      narrowed,
    };
    this.plans.set(type, plan);
    return plan;
  }

  private fieldFor(exposed: ExposedProperty, audience: Audience): Field[] {
    if (exposed.method || exposed.name === '__proto__' || !isVisibleTo(exposed, audience))
      return [];
    const transforms = exposed.transforms.filter((transform) => isVisibleTo(transform, audience));
    return [
      {
        property: exposed.property,
        name: exposed.name,
        transforms,
        convert: this.conversion(shapeFor(exposed, audience)),
      },
    ];
  }

  private conversion(shape: PropertyShape): Conversion {
    if (shape.kind === 'any') return (value, key, walk) => this.json.value(value, key, walk);
    if (shape.kind === 'class') return this.classConversion(shape.type, shape);
    if (shape.kind === 'scalar') {
      const one = toDeclaredScalar(shape.scalar);
      return shape.list ? this.oneOrMany(one, () => undefined) : one;
    }
    return (value, key, walk) => {
      if (value === null) return null;
      throw walk.refuse(key, shape.problem, shape.remedy);
    };
  }

  /**
   * Makes the conversion to a nested class, whose plan is compiled with the first value, since
   * classes refer to each other.
   */
  private classConversion(
    type: Type,
    {
      list,
      loose,
      kinds,
    }: { readonly list: boolean; readonly loose: boolean; readonly kinds?: Kinds },
  ): Conversion {
    let plan: ClassPlan | undefined;
    const nested = () => (plan ??= this.planOf(type));
    const one: Conversion = kinds
      ? this.kindConversion(kinds, nested)
      : (value, key, walk) => this.object(value, key, walk, nested());
    if (!list) return one;
    if (!loose) return this.oneOrMany(one, nested);
    const many: Conversion = this.oneOrMany((value, key, walk) => {
      if (Array.isArray(value)) return many(value, key, walk);
      if (types.isDate(value)) return dateToJson(value);
      return scalarToJson(value) ?? one(value, key, walk);
    }, nested);
    return many;
  }

  /**
   * Makes the conversion to one of several classes: that of the instance, or the one that a plain
   * object names.
   */
  private kindConversion(kinds: Kinds, base: () => ClassPlan): Conversion {
    const plans = new Map<Kind, ClassPlan>();
    const planOf = (kind: Kind): ClassPlan => {
      const plan = plans.get(kind) ?? this.planOfKind(kind, kinds.property);
      plans.set(kind, plan);
      return plan;
    };
    return (value, key, walk) => {
      const kind = isObject(value) ? kindFor(value, kinds) : undefined;
      if (kind) return this.object(value, key, walk, planOf(kind));
      if (!isObject(value) || base().exposesAnything) return this.object(value, key, walk, base());
      const remedy = `Return an instance of one of its subTypes, or a plain object whose \`${kinds.property}\` names one.`;
      throw walk.refuse(key, 'is of none of the classes that its discriminator names', remedy);
    };
  }

  /**
   * Returns the plan of one of several classes, which also tells which one it is, unless that is
   * hidden.
   */
  private planOfKind({ name, type }: Kind, property: string): ClassPlan {
    const plan = this.planOf(type);
    const named: Field = {
      property,
      name: property,
      transforms: [{ groups: undefined, apply: () => name }],
      convert: () => name,
    };
    const fieldsFor = (audience: Audience): readonly Field[] => {
      const own = plan.fields[audience];
      const isSaid =
        own.some((field) => field.name === property) ||
        hiddenPropertiesOf(type, audience).has(property);
      return isSaid ? own : [named, ...own];
    };
    return { ...plan, fields: fieldsBy(fieldsFor), narrowed: new WeakMap() };
  }

  /**
   * Makes a conversion of a single value, or of many in a list, a Set, an ORM's collection or a
   * Map.
   */
  private oneOrMany(one: Conversion, plan: () => ClassPlan | undefined): Conversion {
    const many: Conversion = (value, key, walk) => {
      if (typeof value !== 'object' || value === null) return one(value, key, walk);
      if (Array.isArray(value)) return convertItems(value, key, walk, one);
      if (types.isMap(value)) return convertEntries(value, key, walk, many);
      const declared = plan();
      const isOne =
        !isIterable(value) ||
        (declared && isInstance(value, declared)) ||
        this.ownPlanOf(value) ||
        findUnready(value);
      return isOne ? one(value, key, walk) : convertIterable(value, key, walk, one);
    };
    return many;
  }
}

/**
 * A projector for one declared output, and the problems of its class and of the classes below it.
 */
export interface CompiledProjection extends ResultProjector {
  /**
   * The schema of the model's projection. One object per declared output, since a validator is
   * cached by its schema's identity.
   */
  readonly schema: JSONSchema7;
  readonly findings: readonly Omit<Finding, 'at'>[];
}

interface Field {
  readonly property: string;
  readonly name: string;
  readonly transforms: readonly PropertyTransform[];
  readonly convert: Conversion;
}

interface Fields extends Readonly<Record<Audience, readonly Field[]>> {
  /** False where the ui sees otherwise what the model sees, or a function decides that. */
  readonly isForBoth: boolean;
}

/** The projection of one class. */
interface ClassPlan {
  readonly type: Type;
  readonly prototype: object;
  readonly exposesAnything: boolean;
  readonly fields: Fields;
  /** The fields that instances of other classes show, by their own class. */
  readonly narrowed: WeakMap<Type, Fields>;
}

/**
 * Returns the fields that an instance shows, compiled once for every pair of a declared class and
 * an instance's own; an instance of the declared class costs nothing.
 */
function fieldsOf(instance: object, plan: ClassPlan): Fields {
  if (Reflect.getPrototypeOf(instance) === plan.prototype) return plan.fields;
  const own = classOf(instance);
  if (!own || own === plan.type) return plan.fields;
  const known = plan.narrowed.get(own);
  if (known) return known;
  const fields = fieldsBy((audience) => narrowedFields(plan, own, audience));
  plan.narrowed.set(own, fields);
  return fields;
}

function fieldsBy(fieldsFor: (audience: Audience) => readonly Field[]): Fields {
  const [model, ui] = [fieldsFor('model'), fieldsFor('ui')];
  const isSame = ({ name, property, transforms }: Field, index: number): boolean =>
    ui[index]?.property === property &&
    ui[index].name === name &&
    transforms.length + ui[index].transforms.length === 0;
  return {
    model,
    ui,
    audit: fieldsFor('audit'),
    isForBoth: model.length === ui.length && model.every(isSame),
  };
}

function narrowedFields({ type, fields }: ClassPlan, own: Type, audience: Audience): Field[] {
  const hidden = hiddenPropertiesOf(own, audience);
  const isBelow = Object.prototype.isPrototypeOf.call(type, own);
  return fields[audience].flatMap((field) => {
    if (hidden.has(field.property)) return [];
    const transforms = transformsOf(own, field.property).filter((transform) =>
      isVisibleTo(transform, audience),
    );
    return [{ ...field, transforms: isBelow ? transforms : [...field.transforms, ...transforms] }];
  });
}

/**
 * Finds the class of a value among several: the nearest one of an instance, or the one that a plain
 * object names.
 */
export function kindFor(value: object, { property, classes }: Kinds): Kind | undefined {
  const own = classes.filter(({ type }) => value instanceof type);
  const nearest = own.find(
    (one) =>
      !own.some(
        (other) => other !== one && Object.prototype.isPrototypeOf.call(one.type, other.type),
      ),
  );
  if (nearest || !isPlain(value)) return nearest;
  const name: unknown = Reflect.get(value, property);
  return classes.find((one) => one.name === name);
}

function isInstance(value: object, { prototype }: ClassPlan): boolean {
  return (
    Reflect.getPrototypeOf(value) === prototype ||
    Object.prototype.isPrototypeOf.call(prototype, value)
  );
}

function isIterable(value: unknown): value is Iterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.iterator in value;
}
