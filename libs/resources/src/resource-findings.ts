import type { Type } from '@nestjs/common';
import type { Finding } from '@toolloop/core';
import { nearestName } from '@toolloop/core/internal';
import { keysOf } from './read-action.js';
import { type EntityShape, type EntityShapes, namesFindings } from './resource.js';
import { isReference } from './write-input.js';
import type { EntityModel, ResourceField } from './entity-model.js';
import {
  ACTION_NAMES,
  ACTIONS,
  type ActionName,
  actionsOf,
  type CreateOptions,
  type DestroyOptions,
  type ReadOptions,
  RESOURCE,
  type ResourceDeclaration,
  type UpdateOptions,
} from './tool-resource.decorator.js';

/** Checks the declaration of a resource against its entity. */
export function resourceFindings(
  type: Type,
  declaration: ResourceDeclaration,
  shapes: EntityShapes,
): CheckedResource {
  const at = type.name;
  const findings = [...RESOURCE.findings(declaration, at), ...actionNameFindings(at, declaration)];
  const shape =
    typeof declaration.entity === 'function' ? shapes.find(declaration.entity) : undefined;
  if (!shape) {
    findings.push({
      at,
      problem: 'Its entity is unknown to the ORM.',
      remedy: 'List it in the entities of the ORM.',
    });
    return { findings };
  }
  findings.push(...entityFindings(at, declaration, shape));
  const actions = actionsOf(declaration);
  for (const [name, options] of actions)
    findings.push(
      ...ACTIONS[name].findings(options, `${at} ${name}`),
      ...actionFindings(`${at} ${name}`, name, options, shape),
    );
  const read: ReadOptions | undefined = actions.get('read');
  if (read) findings.push(...keyFindings(`${at} read`, read, shape, shapes));
  return { findings, shape };
}

/** A declaration that was checked. */
export interface CheckedResource {
  readonly findings: Finding[];
  /** Absent where the entity is unknown. */
  readonly shape?: EntityShape;
}

function actionNameFindings(at: string, { actions = [] }: ResourceDeclaration): Finding[] {
  const names: readonly string[] = Array.isArray(actions) ? actions : Object.keys(actions);
  return names
    .filter((name) => !ACTION_NAMES.some((one) => one === name))
    .map((name) => ({
      at,
      problem: `There is no action "${name}".`,
      remedy: nearestName(name, ACTION_NAMES),
    }));
}

function entityFindings(
  at: string,
  declaration: ResourceDeclaration,
  { model, fields, exposed }: EntityShape,
): Finding[] {
  const findings: Finding[] = [];
  const { name } = model.entity;
  const writes = [...actionsOf(declaration).keys()].filter((action) => action !== 'read');
  if (fields.size === 0)
    findings.push({
      at,
      problem: `${name} exposes no field, so nothing of it could be read.`,
      remedy: `Put @Expose() on the properties of ${name} that a model may see.`,
    });
  if (model.tenant !== undefined && exposed.has(model.tenant))
    findings.push({
      at,
      problem: `${name} exposes its tenant.`,
      remedy: `Remove @Expose() from "${model.tenant}": who a call acts for is no one's to choose.`,
    });
  if (model.unkeptTree !== undefined && writes.length > 0)
    findings.push({
      at,
      problem: `It has the action "${writes.join('", "')}", and ${name} is a ${model.unkeptTree}, whose places only TypeORM's \`save()\` keeps.`,
      remedy:
        'Leave the action out, and write a method of your own, or make it a closure table: @Tree("closure-table").',
    });
  if (declaration.shared && model.tenant !== undefined)
    findings.push({
      at,
      problem: `It is shared, and ${name} has a tenant.`,
      remedy: 'Remove `shared`.',
    });
  if (declaration.shared && writes.length > 0)
    findings.push({
      at,
      problem: `It is shared, and has the action "${writes.join('", "')}".`,
      remedy: 'Rows that all tenants share can only be read.',
    });
  return findings;
}

function actionFindings(
  at: string,
  name: ActionName,
  options: object,
  shape: EntityShape,
): Finding[] {
  const { exposed, relations } = shape;
  if (name === 'read') {
    const { load, relations: followed, page }: ReadOptions = options;
    const loadable = [...exposed].filter((one) => !shape.model.relations.has(one));
    return [
      ...namesFindings(at, 'load', load, loadable),
      ...namesFindings(at, 'relations', followed, [...relations.keys()]),
      ...(page && page.default > page.most
        ? [
            {
              at,
              problem: 'Its page is larger by default than at most.',
              remedy: 'Lower `default`, or raise `most`.',
            },
          ]
        : []),
    ];
  }
  return [
    ...(name === 'destroy' ? [] : inputFindings(at, name, options, shape)),
    ...(name === 'create' ? [] : identityFindings(at, options, shape)),
  ];
}

/**
 * A relation is followed and loaded by a key of one field, to rows of one entity: without it
 * nothing would be found, and nothing said.
 */
function keyFindings(
  at: string,
  { relations: followed }: ReadOptions,
  { model, relations }: EntityShape,
  shapes: EntityShapes,
): Finding[] {
  return [...relations.values()]
    .filter(({ name }) => followed?.includes(name) ?? true)
    .flatMap((relation) => {
      const { name, target, isOfSeveral = false, isByParts = false } = relation;
      if (isByParts)
        return [
          {
            at,
            problem: `It follows "${name}", whose rows MikroORM refers to by several columns, so that it cannot be filtered by.`,
            remedy:
              'Leave the relation out: { relations: […] }. Or give the rows a key of one column, with the tenant beside it.',
          },
        ];
      if (isOfSeveral)
        return [
          {
            at,
            problem: `It follows "${name}", which leads to rows of several entities.`,
            remedy: 'Leave the relation out: { relations: […] }.',
          },
        ];
      const keyless = [...(isReference(relation) ? [] : [model]), shapes.find(target)?.model]
        .filter((one) => one !== undefined)
        .find(({ key }) => key === undefined);
      if (!keyless) return [];
      return [
        {
          at,
          problem: `It follows "${name}", and ${keyless.entity.name} has no key of one field beside the tenant.`,
          remedy: `Give ${keyless.entity.name} such a key, or leave the relation out: { relations: […] }.`,
        },
      ];
    });
}

/**
 * The unique keys that a model may write and that hold over all tenants: a value that is refused
 * tells that another tenant has it.
 */
export function tenantWarnings(
  declaration: ResourceDeclaration,
  { model, fields }: EntityShape,
): string[] {
  const { tenant, entity, uniqueKeys, keysOfAllTenants = [] } = model;
  const actions = actionsOf(declaration);
  if (tenant === undefined || !(actions.has('create') || actions.has('update'))) return [];
  return keysOfAllTenants
    .filter((name) => uniqueKeys.get(name)?.every((field) => fields.has(field)))
    .map(
      (name) =>
        `${entity.name}: its key "${name}" is unique over all tenants, so a value that is refused tells that another tenant has it. Add "${tenant}" to the key.`,
    );
}

function inputFindings(
  at: string,
  action: 'create' | 'update',
  { accept, arguments: given = {}, change }: CreateOptions | UpdateOptions,
  { model, owners }: EntityShape,
): Finding[] {
  const fields = [...model.fields.keys()].filter(
    (name) => name !== model.tenant && name !== model.version,
  );
  const ones = [...model.relations.values()].filter(isReference).map(({ name }) => name);
  const known = [...fields, ...ones];
  const taken = Object.keys(given).filter((name) => known.includes(name));
  return [
    ...namesFindings(at, 'accept', accept, known),
    ...(accept ?? [])
      .filter((name) => owners.has(name))
      .map((name) => ({
        at,
        problem: `It accepts "${name}", which says whose words other fields are: anyone could write in the name of another.`,
        remedy:
          'Leave it out of `accept`, and set it from the actor: { change: (values, _given, { actor }) => … }.',
      })),
    ...(accept ?? []).flatMap((name) => setFindings(at, action, model.fields.get(name), model)),
    ...taken.map((name) => ({
      at,
      problem: `Its argument "${name}" is a field.`,
      remedy: 'Accept the field, or name the argument otherwise.',
    })),
    ...(Object.keys(given).length > 0 && !change
      ? [
          {
            at,
            problem: 'Its arguments are not used.',
            remedy: 'Make values of them: { change: (values, given) => values }.',
          },
        ]
      : []),
  ];
}

/** Finds a column that is accepted and that no input can set. */
function setFindings(
  at: string,
  action: 'create' | 'update',
  field: ResourceField | undefined,
  { version }: EntityModel,
): Finding[] {
  if (!field || field.name === version) return [];
  const { name, isSet, onlyIn = action, keyOf } = field;
  if (keyOf !== undefined)
    return [
      {
        at,
        problem: `It accepts "${name}", the column of "${keyOf}", whose rows are not looked up in the tenant.`,
        remedy: `Accept "${keyOf}", which takes the same key.`,
      },
    ];
  const remedy = 'Leave it out of `accept`. If the application has to set it, do so in `change`.';
  if (isSet === 'always')
    return [
      { at, problem: `It accepts "${name}", which the database or the ORM sets itself.`, remedy },
    ];
  return onlyIn === action
    ? []
    : [
        {
          at,
          problem: `It accepts "${name}", which the ORM does not write then.`,
          remedy: 'Leave it out of `accept`.',
        },
      ];
}

function identityFindings(
  at: string,
  { identity = 'primary', bulk, locks }: UpdateOptions | DestroyOptions,
  { model, fields }: EntityShape,
): Finding[] {
  const findings: Finding[] = [];
  if (identity === 'primary') findings.push(...primaryKeyFindings(at, model, fields));
  if (typeof identity === 'string' && identity !== 'primary') {
    const known = [...model.uniqueKeys]
      .filter(([, names]) => names.every((name) => fields.has(name)))
      .map(([key]) => key);
    findings.push(...namesFindings(at, 'identity', [identity], known));
  }
  if (bulk !== undefined && identity !== false)
    findings.push({
      at,
      problem: 'It is a bulk action, and names one row.',
      remedy: 'Let a filter name the rows: { identity: false, bulk }.',
    });
  if (locks && model.version === undefined)
    findings.push({
      at,
      problem: 'It locks, and its entity counts no versions.',
      remedy: 'Add a version property.',
    });
  return findings;
}

function primaryKeyFindings(
  at: string,
  model: EntityModel,
  fields: EntityShape['fields'],
): Finding[] {
  if (model.key === undefined) {
    const remedy = 'Name a unique key, or let a filter name the rows: { identity }.';
    return [{ at, problem: 'Its entity has no key of one field beside the tenant.', remedy }];
  }
  if (
    keysOf(model, fields).some(([first, ...others]) => others.length === 0 && first === model.key)
  )
    return [];
  return [
    {
      at,
      problem: 'The primary key of its entity is not public.',
      remedy: 'Expose it, or name a unique key: { identity }.',
    },
  ];
}
