import type { LoopEventBody, Message, OfferedEntity, SystemMessage } from '@toolloop/protocol';
import type { ToolCatalog } from '../../catalog/tool-catalog.js';
import { instanceKeyOf, memberKey, methodIn, prefixIn } from './member-ids.js';
import { selects } from '../../catalog/tool-selection.js';
import type { SavedRemovals } from '../../catalog/tool-removals.js';
import type { Toolset } from '../../catalog/toolset.js';
import type { RemovalCause } from '../../contracts/injection.js';
import type { Tool } from '../../contracts/tool.js';
import { HeldInstance } from './held-instance.js';
import { isPermitted } from '../../policy/decide.js';
import { applyInjection, type InjectionRules } from '../injection/apply-injection.js';
import { bindTools } from './entity-extraction.js';
import { type RunEntityHandles } from './entity-handles.js';
import { RunInstances } from './run-instances.js';

/** The parts of a run that offer entities of earlier turns again. */
export interface OfferingRun {
  readonly catalog: Pick<ToolCatalog, 'entities' | 'entityTool'>;
  readonly handles: RunEntityHandles;
  readonly rules: InjectionRules;
}

/** The tools of a run once its conversation has brought its entities. */
export interface OfferedAgain {
  readonly toolset: Toolset;
  readonly events: readonly LoopEventBody[];
  /** Tells the model which entities of the turn before are not offered now. Absent if all are. */
  readonly note?: SystemMessage;
}

/**
 * The entity tools of a conversation come under this name, and yield to strategies that withhold
 * them.
 */
const STRATEGY = { name: 'conversation', yields: true } as const;

/**
 * Notes on a run's last answer which entities it offers at its end, unless the conversation says
 * the same already, so that the next run of the conversation offers them again. An answer that is
 * cut from the conversation takes its note with it, and the one before it holds again.
 */
export function withOffered(
  added: readonly Message[],
  earlier: readonly Message[],
  entities: readonly OfferedEntity[],
): readonly Message[] {
  const before = offersIn(earlier).at(-1) ?? [];
  if (JSON.stringify(before) === JSON.stringify(entities)) return added;
  const last = added.findLastIndex(({ role }) => role === 'assistant');
  return added.map((message, index) =>
    index === last && message.role === 'assistant' ? { ...message, entities } : message,
  );
}

/** Lists the entities whose tools a run has, least recently used first. */
export function offeredBy(toolset: Toolset, instances: RunInstances): readonly OfferedEntity[] {
  const entities = new Map<string, OfferedEntity>();
  for (const tool of toolset.tools)
    if (tool.entity) entities.set(instanceKeyOf(tool), offeredEntity(tool, tool.entity));
  return [...instances.oldest()].flatMap((key) => entities.get(key) ?? []);
}

/** The entities that each turn of a conversation noted, in the order of the turns. */
function offersIn(messages: readonly Message[]): readonly (readonly OfferedEntity[])[] {
  return messages.flatMap((message) =>
    message.role === 'assistant' && message.entities ? [message.entities] : [],
  );
}

function offeredEntity(
  { spec, givenBy = '' }: Tool,
  { instanceId, depth }: NonNullable<Tool['entity']>,
): OfferedEntity {
  const prefix = prefixIn(spec.declaredId);
  const name = spec.id.slice(
    prefix.length + 1,
    spec.id.length - methodIn(spec.declaredId).length - 1,
  );
  return { prefix, instanceId, depth, givenBy, ...(name !== instanceId && { handle: name }) };
}

/**
 * Offers the entities that a conversation holds: those of its last turn, the latest first if not
 * all have room, under the same names. Policy, exclusions and caps are those of this run, and
 * nothing is loaded until it is called: then the resolver is asked for the person who speaks now.
 * Rejects with the interruption of a run that ends meanwhile.
 */
export async function offerAgain(
  begun: Toolset,
  messages: readonly Message[],
  run: OfferingRun,
): Promise<OfferedAgain> {
  const turns = offersIn(messages);
  const last = turns.at(-1) ?? [];
  if (turns.length === 0) return { toolset: begun, events: [] };
  rememberHandles(turns.flat(), run);
  const { toolset, events } = await offered(begun, last, run);
  const here = new Set(toolset.tools.map(instanceKeyOf));
  const gone = lastOfEach(turns.flat()).filter((entity) => !here.has(keyEntity(entity)));
  const lost = last.filter((entity) => !here.has(keyEntity(entity)));
  const told = gone.flatMap((entity) => removalsOf(entity, run));
  return {
    toolset: toolset.resumed([], told),
    events,
    ...(lost.length > 0 && { note: noteOf(lost) }),
  };
}

/** Keeps the handles of all turns: a name of an earlier turn never stands for another instance. */
function rememberHandles(
  entities: readonly OfferedEntity[],
  { catalog, handles }: OfferingRun,
): void {
  for (const { prefix, instanceId, handle } of entities) {
    const type = catalog.entities.withPrefix(prefix)?.type;
    if (type && handle !== undefined) handles.remember(type, instanceId, handle);
  }
}

/**
 * Chooses the latest entities for which there is room, then adds them in the order of the turn
 * before, so that the list of tools keeps its beginning.
 */
async function offered(
  begun: Toolset,
  last: readonly OfferedEntity[],
  run: OfferingRun,
): Promise<OfferedAgain> {
  const place = { step: 0, strategy: STRATEGY };
  const instances = last.map((entity) => toolsOf(entity, run));
  const trial = { ...run.rules, instances: new RunInstances() };
  const latest = await applyInjection(begun, { add: instances.toReversed().flat() }, trial, place);
  const chosen = new Set(latest.toolset.tools.map(instanceKeyOf));
  const add = instances.flat().filter((tool) => chosen.has(instanceKeyOf(tool)));
  const { toolset, events } = await applyInjection(begun, { add }, run.rules, place);
  const warnings = latest.events.filter(({ type }) => type === 'warning');
  return { toolset, events: [...events, ...warnings] };
}

/** Makes the tools of an entity; none if its class has no resolver, or no longer exists. */
function toolsOf(
  { prefix, instanceId, depth, givenBy }: OfferedEntity,
  { catalog, handles }: OfferingRun,
): readonly Tool[] {
  const definition = catalog.entities.withPrefix(prefix);
  if (!definition?.rehydration) return [];
  return bindTools(definition, new HeldInstance(definition, instanceId), {
    instanceId,
    depth,
    givenBy,
    handles,
  });
}

function keyEntity({ prefix, instanceId }: OfferedEntity): string {
  return `${prefix} ${instanceId}`;
}

function lastOfEach(entities: readonly OfferedEntity[]): readonly OfferedEntity[] {
  return [...new Map(entities.map((entity) => [keyEntity(entity), entity])).values()];
}

/**
 * Makes the answers to calls of an entity's tools that are not offered now. The tools that the run
 * excludes read like unknown ones.
 */
function removalsOf(entity: OfferedEntity, { catalog, rules }: OfferingRun): SavedRemovals {
  const definition = catalog.entities.withPrefix(entity.prefix);
  return (definition?.tools ?? []).flatMap(({ name, template }) => {
    const tool = catalog.entityTool(template.spec.declaredId);
    if (!tool || rules.exclude.some((selector) => selects(selector, { tool }))) return [];
    const cause = causeOf(entity, {
      isFoundAgain: definition?.rehydration !== undefined,
      isPermitted: isPermitted(tool, rules),
    });
    const member = memberKey(template.spec.declaredId, entity.instanceId);
    return [`${nameOf(entity)}_${name}`, member].map((key): [string, RemovalCause] => [key, cause]);
  });
}

function causeOf(
  { givenBy }: OfferedEntity,
  may: { readonly isFoundAgain: boolean; readonly isPermitted: boolean },
): RemovalCause {
  if (!may.isPermitted) return { kind: 'role', perInstance: true, givenBy };
  return may.isFoundAgain ? { kind: 'evicted', givenBy } : { kind: 'process_ended', givenBy };
}

function nameOf({ prefix, instanceId, handle = instanceId }: OfferedEntity): string {
  return `${prefix}_${handle}`;
}

const MOST_NAMED = 20;

/**
 * Names the entities by the beginning of their tools' ids, which the model knows. They may be
 * private, so the note is.
 */
function noteOf(lost: readonly OfferedEntity[]): SystemMessage {
  const names = lost.slice(-MOST_NAMED).map((entity) => `${nameOf(entity)}_*`);
  const others =
    lost.length > names.length ? ` and those of ${lost.length - names.length} more` : '';
  const givers = [...new Set(lost.map(({ givenBy }) => givenBy))]
    .filter((giver) => giver !== '')
    .slice(0, MOST_NAMED);
  const back = givers.length > 0 ? ` To get one back, call ${givers.join(' or ')} again.` : '';
  const content = `These tools of earlier turns are not available now: ${names.join(', ')}${others}.${back}`;
  return { role: 'system', content, labels: { returns: 'trusted', reads: 'private' } };
}
