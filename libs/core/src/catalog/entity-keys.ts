import type { EntityReference, Tool } from '../protocol/tool.js';

/** The tool over which everything of every entity is called. */
export const DISPATCHER_ID = 'entity__call';

/** The tool over which one method of all instances is called. No service has the namespace that it would need for that id. */
export function groupedId(declaredId: string): string {
  return `${prefixIn(declaredId)}__${methodIn(declaredId)}`;
}

/** What an instance goes by within a run. The prefix stands for its class: no two classes share one. */
export function instanceKey(declaredId: string, instanceId: string): string {
  return `${prefixIn(declaredId)} ${instanceId}`;
}

/** The same of an entity's tool; of any other it is a key that no instance has. */
export function instanceKeyOf({ spec: { id, declaredId }, entity }: Pick<Tool, 'spec' | 'entity'>): string {
  return entity ? instanceKey(declaredId, entity.instanceId) : `_${id}`;
}

/** What a tool of an instance goes by, whatever its rendered id. */
export function memberKey(declaredId: string, instanceId: string): string {
  return `${declaredId} ${instanceId}`;
}

/** The declared id in such a key; undefined for the id of a tool, in which there are no spaces. */
export function declaredIdOfMember(key: string): string | undefined {
  const end = key.indexOf(' ');
  return end === -1 ? undefined : key.slice(0, end);
}

export function memberKeyOf({ spec }: Pick<Tool, 'spec'>, { instanceId }: EntityReference): string {
  return memberKey(spec.declaredId, instanceId);
}

/** `customer_c-1_getAverageSpend` → `customer_*_getAverageSpend`: neither a prefix nor a name of an instance has a `_`. */
export function declaredIdIn(renderedId: string): string {
  const [prefix, _name, ...method] = renderedId.split('_');
  return `${prefix}_*_${method.join('_')}`;
}

/** `customer_*_getAverageSpend` → `customer`. */
export function prefixIn(declaredId: string): string {
  return declaredId.slice(0, Math.max(0, declaredId.indexOf('_*_')));
}

/** `customer_*_getAverageSpend` → `getAverageSpend`. */
export function methodIn(declaredId: string): string {
  return declaredId.slice(declaredId.indexOf('_*_') + 3);
}
