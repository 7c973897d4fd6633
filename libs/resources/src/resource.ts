import type { Type } from '@nestjs/common';
import type { Finding, JsonObject, RunContext } from '@toolloop/core';
import {
  describeFields,
  type ExposedProperty,
  exposedPropertiesOf,
  type KnownField,
  nearestName,
} from '@toolloop/core/internal';
import type { ToolRefusal, ToolWord } from '@toolloop/core/contracts';
import {
  all,
  EVERYTHING,
  type FilterShape,
  Problems,
  readFilter,
  type RelatedShape,
} from './filter.js';
import type { Condition } from './resource-query.js';
import type { EntityModel, ResourceField } from './entity-model.js';
import type { ResourceGateway } from './resource-gateway.js';
import type { ResourcePolicy, ResourceWrite } from './resource-policy.js';
import type { ResourceDeclaration } from './tool-resource.decorator.js';

/** A resource that was found well. */
export interface Resource {
  readonly declaration: ResourceDeclaration;
  readonly shape: EntityShape;
  readonly shapes: EntityShapes;
}

/** The fields and relations of an entity that may leave, and those of them that are public. */
export interface EntityShape {
  readonly model: EntityModel;
  /**
   * The properties that the model may see; those that are no fields are getters, which no row is
   * asked for.
   */
  readonly exposed: ReadonlySet<string>;
  /**
   * Every property that any audience may see, which a view must not take from the entity's class.
   */
  readonly shown: ReadonlySet<string>;
  /** The properties that are declared as dates, of which a result says no word. */
  readonly dates: ReadonlySet<string>;
  /** The properties that people may see, such as in a preview. */
  readonly forPeople: ReadonlySet<string>;
  /** The public fields: they may be returned, filtered by, sorted by and aggregated. */
  readonly fields: FilterShape['fields'];
  /** The public relations. */
  readonly relations: EntityModel['relations'];
  /**
   * The fields that the application writes, so that no one outside can have said anything in them.
   */
  readonly ours: ReadonlySet<string>;
  /** The fields that say whose words other fields are (`ownedBy`). */
  readonly owners: ReadonlySet<string>;
}

/** The entities of an application and their policies, each looked up once. */
export class EntityShapes {
  private readonly shapes = new Map<Type, EntityShape | undefined>();
  private readonly policies = new Map<Type, ResourcePolicy>();
  /**
   * The access of everyone where no policy says otherwise: it is the same for each call of a tool.
   */
  private open = new WeakMap<EntityShape, WeakMap<AccessTerms, Promise<ResourceAccess>>>();

  constructor(
    private readonly gateway: ResourceGateway,
    /** Returns the fields of an entity that some resource lets a model write. @default none */
    private readonly acceptedOf: (entity: Type) => ReadonlySet<string> = () => NONE,
  ) {}

  /** Finds an entity; undefined for a class that the ORM does not know. */
  find(entity: Type): EntityShape | undefined {
    if (!this.shapes.has(entity)) this.shapes.set(entity, this.describe(entity));
    return this.shapes.get(entity);
  }

  /** Lets a policy decide about an entity, wherever it is read. */
  govern(entity: Type, policy: ResourcePolicy): void {
    this.policies.set(entity, policy);
    this.open = new WeakMap();
  }

  /** Tells whether a policy decides about an entity, or about one that its relations lead to. */
  isGoverned({ model: { entity, relations } }: EntityShape): boolean {
    if (this.policies.size === 0) return false;
    return [entity, ...[...relations.values()].map(({ target }) => target)].some((one) =>
      this.policies.has(one),
    );
  }

  /** Returns what everyone may read by these terms, made once. */
  openTo(
    shape: EntityShape,
    terms: AccessTerms,
    make: () => Promise<ResourceAccess>,
  ): Promise<ResourceAccess> {
    const byTerms = this.open.get(shape) ?? new WeakMap<AccessTerms, Promise<ResourceAccess>>();
    this.open.set(shape, byTerms);
    const access = byTerms.get(terms) ?? make();
    byTerms.set(terms, access);
    return access;
  }

  /** Labels the fields of every entity that was found, for all tools that return it. */
  labelFields(): void {
    for (const shape of this.shapes.values())
      if (shape)
        describeFields(
          shape.model.entity,
          new Map([...shape.shown].map((name) => [name, knownOf(name, shape)])),
        );
  }

  policyOf(entity: Type): ResourcePolicy | undefined {
    return this.policies.get(entity);
  }

  private describe(entity: Type): EntityShape | undefined {
    const model = this.gateway.describe(entity);
    if (!model) return undefined;
    const properties = exposedPropertiesOf(entity);
    const visible = properties.filter(
      ({ groups }) => groups === undefined || groups.includes('model'),
    );
    // A value that a transform masks must not be told by a filter.
    const plain = new Set(
      visible
        .filter(({ name, property, transforms }) => name === property && transforms.length === 0)
        .map(({ property }) => property),
    );
    const exposed = new Set(visible.map(({ property }) => property));
    const owners = new Set(visible.flatMap((property) => property.field().ownedBy ?? []));
    const accepted = this.acceptedOf(entity);
    const isOurs = (one: (typeof visible)[number]): boolean => {
      const { property, transforms } = one;
      const { origin } = one.field();
      const column = transforms.length === 0 ? model.fields.get(property) : undefined;
      if (origin !== undefined) return origin === 'application';
      return (
        column !== undefined &&
        (owners.has(property) || (isMadeByStorage(column, model) && !accepted.has(property)))
      );
    };
    return {
      model,
      exposed,
      dates: new Set(properties.filter(isDate).map(({ property }) => property)),
      forPeople: new Set(
        properties
          .filter(({ groups }) => groups === undefined || groups.includes('ui'))
          .map(({ property }) => property),
      ),
      shown: new Set(properties.map(({ property }) => property)),
      fields: only(
        model.fields,
        ({ name, hidden }) => plain.has(name) && !hidden && name !== model.tenant,
      ),
      relations: only(model.relations, ({ name, hidden }) => exposed.has(name) && !hidden),
      ours: new Set(visible.filter(isOurs).map(({ property }) => property)),
      owners,
    };
  }
}

function isDate(property: ExposedProperty): boolean {
  const shape = property.shape();
  return shape.kind === 'scalar' && shape.scalar === 'date';
}

const NONE: ReadonlySet<string> = new Set();

const OURS: KnownField = { origin: 'application' };

/**
 * The facts of a column for all tools that return it. One that is not there was not selected: one
 * without a value is null.
 */
function knownOf(name: string, { ours, model }: EntityShape): KnownField {
  if (ours.has(name)) return OURS;
  const { values, nullable = false } = model.fields.get(name) ?? {};
  return {
    absence: 'application',
    ...(values && { values: nullable ? [...values, null] : values }),
  };
}

/**
 * Tells whether the database or the ORM makes the values of a column that says nothing of its
 * origin: generated keys, versions, and moments of a creation or a change. A column that is
 * computed repeats others, and so may a text that a hook makes. Anyone may have written all the
 * others: their type says how much they tell, never who wrote them.
 */
function isMadeByStorage(
  { name, kind, isSet, isComputed }: ResourceField,
  { key }: EntityModel,
): boolean {
  if (isSet === undefined || isComputed) return false;
  return name === key || (kind !== 'text' && kind !== 'json');
}

/** The part of a resource that an actor may read. */
export interface ResourceAccess {
  readonly shape: EntityShape;
  readonly filter: FilterShape;
  /** The rows that exist for the actor. */
  readonly rows: Condition;
  /** The fields of a row that are returned unless fewer are selected. */
  readonly returned: readonly string[];
  /** Those of them that are returned whatever is selected: hidden ones that the resource loads. */
  readonly loaded: readonly string[];
  /** The relations that may be loaded, with what the actor may read of their rows. */
  readonly related: ReadonlyMap<string, ResourceAccess>;
}

/** The parts of a resource that are asked for. */
export interface AccessTerms {
  /** @default the public relations */
  readonly relations?: readonly string[] | undefined;
  /** Hidden fields that are returned as well. */
  readonly load?: readonly string[] | undefined;
}

/**
 * Asks the policies of an entity, and of those that its relations lead to, what an actor may read.
 *
 * @throws {RefusedError} Where the actor may not read the entity. A relation to an entity that may
 *   not be read does not exist.
 */
export function accessTo(
  resource: Pick<Resource, 'shape' | 'shapes'>,
  run: RunContext,
  terms: AccessTerms = WHOLE,
): Promise<ResourceAccess> {
  const { shape, shapes } = resource;
  if (shapes.isGoverned(shape)) return accessFor(resource, run, terms);
  return shapes.openTo(shape, terms, () => accessFor(resource, run, terms));
}

const WHOLE: AccessTerms = {};
const WITHOUT_RELATIONS: AccessTerms = { relations: [] };

async function accessFor(
  { shape, shapes }: Pick<Resource, 'shape' | 'shapes'>,
  run: RunContext,
  terms: AccessTerms,
): Promise<ResourceAccess> {
  const { entity } = shape.model;
  const policy = shapes.policyOf(entity);
  if (policy) await assertWord(policy.canRead(run), policy, 'canRead');
  const { read } = (await policy?.fields(run)) ?? {};
  const isReadable = ({ name }: { readonly name: string }): boolean =>
    read === undefined || read.includes(name);
  const fields = only(shape.fields, isReadable);
  const named = terms.relations ?? [...shape.relations.keys()];
  const related = new Map<string, ResourceAccess>();
  const filterable = new Map<string, RelatedShape>();
  for (const relation of only(
    shape.relations,
    (one) => isReadable(one) && named.includes(one.name),
  ).values()) {
    const access = await relatedAccess(shapes, relation.target, run);
    if (!access) continue;
    related.set(relation.name, access);
    filterable.set(relation.name, { relation, shape: access.filter, rows: access.rows });
  }
  const loaded = (terms.load ?? []).filter((name) => isReadable({ name }));
  return {
    shape,
    filter: { fields, relations: filterable },
    rows: await rowsFor(shape, policy, run),
    returned: [...new Set([...fields.keys(), ...loaded])],
    loaded,
    related,
  };
}

/** The filter of the model's public fields, before an actor's rules narrow it. */
export function publicFilter({ shape, shapes }: Resource, { relations }: AccessTerms): FilterShape {
  const named = [...shape.relations.values()].filter(
    ({ name }) => relations === undefined || relations.includes(name),
  );
  const related = named.flatMap((relation) => {
    const target = shapes.find(relation.target);
    return target
      ? [
          [
            relation.name,
            { relation, shape: { fields: target.fields, relations: new Map() } },
          ] as const,
        ]
      : [];
  });
  return { fields: shape.fields, relations: new Map(related) };
}

async function relatedAccess(
  shapes: EntityShapes,
  entity: Type,
  run: RunContext,
): Promise<ResourceAccess | undefined> {
  const shape = shapes.find(entity);
  if (!shape) return undefined;
  try {
    return await accessTo({ shape, shapes }, run, WITHOUT_RELATIONS);
  } catch (error) {
    if (error instanceof RefusedError) return undefined;
    throw error;
  }
}

async function rowsFor(
  { model }: EntityShape,
  policy: ResourcePolicy | undefined,
  run: RunContext,
): Promise<Condition> {
  const filter: JsonObject | undefined = await policy?.rows(run);
  if (filter === undefined) return EVERYTHING;
  const problems = new Problems();
  const condition = all([
    readFilter(filter, { fields: model.fields, relations: new Map() }, '', problems),
  ]);
  if (problems.found.length === 0 && Object.keys(filter).length === 0)
    problems.say('', 'has no condition. Return undefined for all rows of the tenant.');
  const [first] = problems.found;
  if (first)
    throw new Error(
      `The rows of the policy of ${model.entity.name} cannot be read: ${first.pointer} ${first.message}`,
    );
  return condition;
}

/** Thrown where the policy of a resource refuses. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';

  constructor(readonly refusal: ToolRefusal) {
    super(refusal.reason);
  }
}

/**
 * Asks the policy about a write: before a person is asked, and again in the transaction.
 *
 * @throws {RefusedError} Where the actor may not make it.
 */
export async function assertWrite(
  { shape, shapes }: Resource,
  run: RunContext,
  write: ResourceWrite,
): Promise<void> {
  const policy = shapes.policyOf(shape.model.entity);
  if (policy) await assertWord(policy.canWrite(run, write), policy, 'canWrite');
}

async function assertWord(
  asking: ToolWord | Promise<ToolWord>,
  policy: ResourcePolicy,
  asked: 'canRead' | 'canWrite',
): Promise<void> {
  const word = await asking;
  if (word === true) return;
  const { version, constructor } = policy;
  const refusal = word || {
    rule: `${constructor.name}.${asked}`,
    reason: 'The policy of the resource does not let the actor do this.',
  };
  throw new RefusedError({ version, ...refusal });
}

/** Turns a refusal into the word of a tool; other errors stay what they are. */
export async function wordOf(asking: () => Promise<unknown>): Promise<ToolWord> {
  try {
    await asking();
    return true;
  } catch (error) {
    if (error instanceof RefusedError) return error.refusal;
    throw error;
  }
}

/** Finds names in a declaration that are none of the entity's. */
export function namesFindings(
  at: string,
  option: string,
  names: readonly string[] = [],
  known: readonly string[],
): Finding[] {
  return names
    .filter((name) => !known.includes(name))
    .map((name) => ({
      at,
      problem: `Its ${option} names "${name}", which cannot be used there.`,
      remedy: nearestName(name, known),
    }));
}

export function only<Value>(
  map: ReadonlyMap<string, Value>,
  keeps: (value: Value) => boolean,
): ReadonlyMap<string, Value> {
  return new Map([...map].filter(([, value]) => keeps(value)));
}
