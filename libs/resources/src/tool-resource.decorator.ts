import { Injectable, type Type } from '@nestjs/common';
import {
  type JsonObject,
  type ToolCallContext,
  type ToolLabels,
  ToolProvider,
} from '@toolloop/core';
import { type RawToolDeclaration } from '@toolloop/core/catalog';
import {
  BOOLEAN,
  CHECKED_BY_USE,
  CLASS,
  defineOptions,
  FUNCTION,
  listOf,
  needed,
  OBJECT,
  oneOf,
  type OptionRule,
  optionsOf,
  TEXT,
  toolMethodsOf,
  wholeFrom,
} from '@toolloop/core/internal';
import type { JSONSchema7 } from 'json-schema';
import 'reflect-metadata';
import type { ResourcePolicy } from './resource-policy.js';

/**
 * Makes the rows of an entity tools: one for each action, such as `orders__read`. Its `@LlmTool()`
 * methods are tools of the same namespace. List the class in `ResourceToolsModule.forFeature([…])`.
 *
 * @example
 * @ToolResource(Order, { namespace: 'orders', actions: ['read', 'create'] }) export class
 *   OrderTools { @LlmTool({ description: 'Ships an order.', effect: 'state_change', output: Order
 *   }) ship(@ToolParam('id', { description: 'The id of the order.' }) id: string, @ToolContext()
 *   context: ToolCallContext): Promise<Order> { return this.shipping.ship(id, context); } }
 */
export function ToolResource(entity: Type, options: ToolResourceOptions): ClassDecorator {
  return (target) => {
    const type: unknown = target;
    Reflect.defineMetadata(RESOURCE_METADATA, { ...options, entity }, target);
    Injectable()(target);
    if (isClass(type) && toolMethodsOf(type).length > 0)
      ToolProvider({ namespace: options.namespace })(target);
  };
}

export const ACTION_NAMES = ['read', 'create', 'update', 'destroy'] as const;

export type ActionName = (typeof ACTION_NAMES)[number];

export const ACTION_PARAMETERS = [
  'filter',
  'sort',
  'limit',
  'offset',
  'cursor',
  'result_type',
  'aggregate',
  'get_by',
  'select',
  'load',
] as const;

export type ActionParameter = (typeof ACTION_PARAMETERS)[number];

/** The options of a read. */
export interface ReadOptions extends ActionOptions {
  /** The parameters that the model may give. @default all of them */
  readonly actionParameters?: readonly ActionParameter[];
  /**
   * Hidden fields and relations to one that are always returned; they need `@Expose()`, and are
   * never filtered, sorted or counted by. @default none
   */
  readonly load?: readonly string[];
  /**
   * The relations that the model may filter by and load, one level deep. @default all that are
   * exposed and not hidden
   */
  readonly relations?: readonly string[];
  /**
   * The rows of a page unless the model says otherwise, and at most. @default { default: 20, most:
   * 50 }
   */
  readonly page?: { readonly default: number; readonly most: number };
}

/** The options of a create. */
export interface CreateOptions extends WriteOptions, InputOptions {
  /**
   * Takes up to so many inputs in one call, of which all are written or none. @default one input
   */
  readonly bulk?: number;
}

/** The options of an update. */
export interface UpdateOptions extends WriteOptions, InputOptions, IdentityOptions {}

/** The options of a destroy. */
export interface DestroyOptions extends WriteOptions, IdentityOptions {}

/** The options of each action of a resource. */
export interface ResourceActions {
  readonly read?: ReadOptions | true;
  readonly create?: CreateOptions | true;
  readonly update?: UpdateOptions | true;
  readonly destroy?: DestroyOptions | true;
}

/** The options of `@ToolResource()`. */
export interface ToolResourceOptions {
  /** The first part of the tools' ids: `orders` for `orders__read`. */
  readonly namespace: string;
  /** The actions that are tools. @default none */
  readonly actions?: readonly ActionName[] | ResourceActions;
  /**
   * The labels of the rows, for each action that does not say otherwise: `returns: 'trusted'` where
   * no one from outside wrote any of them. @default as for every tool: private and untrusted
   */
  readonly labels?: Pick<Partial<ToolLabels>, 'returns' | 'reads'>;
  /**
   * The policy of the entity's rows, a provider of any module. @default the policy of the run alone
   * decides
   */
  readonly policy?: Type<ResourcePolicy>;
  /**
   * Set for rows that all tenants share, such as currencies: they can only be read. @default the
   * rows are the tenant's
   */
  readonly shared?: boolean;
  /**
   * Finds a `@ToolProvider()` entity again, by its id in the current tenant, before each call of
   * its tools. Set it to `false` beside a resolver of your own. @default true
   */
  readonly resolver?: boolean;
}

/** A class marked `@ToolResource()`. */
export interface ResourceDeclaration extends ToolResourceOptions {
  readonly entity: Type;
}

interface ActionOptions {
  /** Sent to the model. @default a sentence made of the action and the entity */
  readonly description?: string;
  /** @default those of the resource */
  readonly labels?: Partial<ToolLabels>;
}

interface WriteOptions extends ActionOptions {
  /**
   * The moment at which the policy of the resource is asked before a person is: about the row and
   * the input (`identity`), about the input alone (`empty`), or not at all (`none`), when only the
   * transaction asks. @default 'empty' for a create, else 'identity'
   */
  readonly preflight?: 'identity' | 'empty' | 'none';
  /** Makes the call ask for its effect, which happens later, once; as in `@LlmTool()`. */
  readonly directive?: RawToolDeclaration['directive'];
}

interface InputOptions {
  /**
   * The fields and relations that `input` may have. @default every exposed field that the database
   * does not set itself
   */
  readonly accept?: readonly string[];
  /**
   * Further properties of `input`, which are no fields; `change` makes something of them. @default
   * none
   */
  readonly arguments?: Readonly<Record<string, JSONSchema7>>;
  /**
   * Makes the values that are written of those that were accepted. Fields that are not accepted may
   * be set here. @default they are written as they are
   */
  change?(
    this: void,
    values: Readonly<Record<string, unknown>>,
    given: JsonObject,
    context: ToolCallContext,
  ): Readonly<Record<string, unknown>>;
}

interface IdentityOptions {
  /**
   * The key by which a row is named: the primary key, a unique key, or none (`false`), when a
   * filter is required. @default 'primary'
   */
  readonly identity?: string | false;
  /**
   * With `identity: false`: the most rows that one call may write, all or none of them. @default 1
   */
  readonly bulk?: number;
  /**
   * With `identity: false`: the relations that the filter may follow. @default all that are exposed
   * and not hidden
   */
  readonly relations?: readonly string[];
  /**
   * Requires the version that the model has read, so that nothing is written over the change of
   * another. @default it may be given
   */
  readonly locks?: boolean;
}

const RESOURCE_METADATA = 'toolloop:resource';

function isClass(value: unknown): value is Type {
  return typeof value === 'function';
}

/** Returns what a class declares; undefined for a class that is not marked. */
export function resourceOf(type: Type): ResourceDeclaration | undefined {
  return Reflect.getMetadata(RESOURCE_METADATA, type) as ResourceDeclaration | undefined;
}

/** The options of some action. */
type GivenOptions = ActionOptions & Pick<InputOptions, 'accept'>;

/** Returns the options of each action that is declared, with the labels of the resource. */
export function actionsOf({
  actions = [],
  labels: common,
}: ToolResourceOptions): ReadonlyMap<ActionName, GivenOptions> {
  const isList = Array.isArray(actions);
  const given: readonly (readonly [string, unknown])[] = isList
    ? actions.map((name: string) => [name, true])
    : Object.entries(actions);
  return new Map(
    given.flatMap(([name, options]) => {
      const action = ACTION_NAMES.find((one) => one === name);
      if (!action || options === undefined) return [];
      const own: GivenOptions = typeof options === 'object' && options !== null ? options : {};
      return [
        [
          action,
          isLabels(common) ? { ...own, labels: { ...common, ...own.labels } } : own,
        ] as const,
      ];
    }),
  );
}

function isLabels(labels: unknown): labels is NonNullable<ToolResourceOptions['labels']> {
  return typeof labels === 'object' && labels !== null;
}

const NAMESPACE: OptionRule<string> = {
  wanted: 'letters, digits, - and _, 40 characters at most',
  accept: (value) => typeof value === 'string' && /^[\w-]{1,40}$/.test(value),
};

const LABELS = defineOptions<NonNullable<ToolResourceOptions['labels']>>({
  returns: oneOf('trusted', 'untrusted'),
  reads: oneOf('public', 'private'),
});

/**
 * The options of a resource by itself; what they say of the entity is checked against its model.
 */
export const RESOURCE = defineOptions<ResourceDeclaration>({
  entity: needed({ ...CLASS, wanted: 'the class of an entity' }),
  namespace: needed(NAMESPACE),
  actions: CHECKED_BY_USE,
  labels: optionsOf(LABELS, { isHere: true }),
  policy: CLASS,
  shared: BOOLEAN,
  resolver: BOOLEAN,
});

const NAMES = listOf(TEXT, 'a list of names');
const PAGE = defineOptions<NonNullable<ReadOptions['page']>>({
  default: needed(wholeFrom(1, 1_000)),
  most: needed(wholeFrom(1, 1_000)),
});
const ACTION = { description: TEXT, labels: OBJECT } as const;
const WRITE = {
  ...ACTION,
  preflight: oneOf('identity', 'empty', 'none'),
  directive: OBJECT,
} as const;
const INPUT = { accept: NAMES, arguments: OBJECT, change: FUNCTION } as const;
const MANY = wholeFrom(1, 1_000);
const IDENTITY = {
  identity: CHECKED_BY_USE,
  bulk: MANY,
  relations: NAMES,
  locks: BOOLEAN,
} as const;

/** The options of each action. */
export const ACTIONS = {
  read: defineOptions<ReadOptions>({
    ...ACTION,
    actionParameters: {
      ...NAMES,
      wanted: `a list of ${ACTION_PARAMETERS.join(', ')}`,
      accept: areParameters,
    },
    load: NAMES,
    relations: NAMES,
    page: optionsOf(PAGE, { isHere: true }),
  }),
  create: defineOptions<CreateOptions>({ ...WRITE, ...INPUT, bulk: MANY }),
  update: defineOptions<UpdateOptions>({ ...WRITE, ...INPUT, ...IDENTITY }),
  destroy: defineOptions<DestroyOptions>({ ...WRITE, ...IDENTITY }),
} as const;

function areParameters(value: unknown): boolean {
  return (
    Array.isArray(value) && value.every((name) => ACTION_PARAMETERS.some((one) => one === name))
  );
}
