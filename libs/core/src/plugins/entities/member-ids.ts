import type { EntityReference } from '@toolloop/protocol';
import type { Tool } from '../../contracts/tool.js';

/**
 * Returns the id of the tool over which one method of all instances is called. No service may have
 * the namespace of that id.
 */
export function groupedId(declaredId: string): string {
  return `${prefixIn(declaredId)}__${methodIn(declaredId)}`;
}

/**
 * Returns the key of an instance within a run. The prefix identifies its class, since no two
 * classes share one.
 */
export function instanceKey(declaredId: string, instanceId: string): string {
  return `${prefixIn(declaredId)} ${instanceId}`;
}

/**
 * Returns the key of the instance of an entity's tool; for any other tool a key that no instance
 * has.
 */
export function instanceKeyOf({
  spec: { id, declaredId },
  entity,
}: Pick<Tool, 'spec' | 'entity'>): string {
  return entity ? instanceKey(declaredId, entity.instanceId) : `_${id}`;
}

/** Returns the member key of an instance's tool, which does not depend on its rendered id. */
export function memberKey(declaredId: string, instanceId: string): string {
  return `${declaredId} ${instanceId}`;
}

/** Reads the declared id from a member key; undefined for the id of a tool, which has no spaces. */
export function declaredIdOfMember(key: string): string | undefined {
  const end = key.indexOf(' ');
  return end === -1 ? undefined : key.slice(0, end);
}

export function memberKeyOf({ spec }: Pick<Tool, 'spec'>, { instanceId }: EntityReference): string {
  return memberKey(spec.declaredId, instanceId);
}

/**
 * Returns the declared id of an instance's tool: `customer_c-1_getAverageSpend` →
 * `customer_*_getAverageSpend`. Neither a prefix nor an instance's name has a `_`.
 */
export function declaredIdIn(renderedId: string): string {
  const [prefix, _name, ...method] = renderedId.split('_');
  return `${prefix}_*_${method.join('_')}`;
}

/** Returns the prefix of an entity's tool: `customer_*_getAverageSpend` → `customer`. */
export function prefixIn(declaredId: string): string {
  return declaredId.slice(0, Math.max(0, declaredId.indexOf('_*_')));
}

/** Returns the method of an entity's tool: `customer_*_getAverageSpend` → `getAverageSpend`. */
export function methodIn(declaredId: string): string {
  return declaredId.slice(declaredId.indexOf('_*_') + 3);
}

/** The id of the dispatcher, the tool over which every method of every entity is called. */
export const DISPATCHER_ID = 'entity__call';
