import type { MadeCall } from './conversation.reader.js';
import { answeredBy, answeredByResult, ANSWERED, isEmptyResult, meant, usedStems } from './coverage.js';
import { isScalar } from './json.js';
import { entityOf, relevance } from './result.entities.js';
import type { Situation } from './situation.js';
import { isReadOnly, type ToolProfile } from './tool.profile.js';

/**
 * The calls whose results answer the question, a person's no among them: from the newest back, each that answers a word the newer ones do not. A call that only led to
 * another one stays out, unless its result names what was asked.
 */
export function answeringCalls(situation: Situation): MadeCall[] {
  const told = situation.conversation.calls.filter(({ status }) => status === 'succeeded' || status === 'denied');
  const spoken = new Set(usedStems(situation.question, situation.conversation.calls));
  const left = new Set(wantedStems(situation).filter((stem) => !spoken.has(stem)));
  const kept: MadeCall[] = [];
  for (const call of told.toReversed()) {
    const answers = answersOf(call, kept, situation);
    const hits = [...left].filter((stem) => answers(stem) >= ANSWERED);
    const profile = situation.profiles.get(call.name);
    const belongs = profile !== undefined && (!isReadOnly(profile) || isSiblingKept(profile, kept, situation));
    if (hits.length > 0 || belongs) kept.unshift(call);
    for (const stem of hits) left.delete(stem);
  }
  return kept.length > 0 ? kept : nearestCall(told, situation);
}

/** The stems an answer should speak of. */
export function wantedStems({ question }: Situation): string[] {
  return [...new Set(question.words.filter(({ weak, token }) => !weak || token < 0).map((word) => word.stem))];
}

function answersOf(call: MadeCall, kept: readonly MadeCall[], situation: Situation): (wanted: string) => number {
  const profile = situation.profiles.get(call.name);
  if (ledTo(call, kept, situation)) return answeredByResult(call);
  return isEmptyResult(call.value) ? (wanted) => meant(call, profile, wanted) : answeredBy(call, profile);
}

/** Calls of one declared tool belong together: one answers, so do the others. */
function isSiblingKept({ spec }: ToolProfile, kept: readonly MadeCall[], { profiles }: Situation): boolean {
  return kept.some(({ name }) => profiles.get(name)?.spec.declaredId === spec.declaredId);
}

/** Whether a kept call is on a thing this call found. */
function ledTo(call: MadeCall, kept: readonly MadeCall[], { profiles, entities }: Situation): boolean {
  const ids = new Set(entities.filter((entity) => entity.call === call).flatMap((entity) => entity.ids));
  return kept.some(({ name, args }) => {
    const profile = profiles.get(name);
    const bound = profile && entityOf(profile, entities);
    const instances = [profile?.entity?.instanceId ?? '', ...(bound?.ids ?? [])];
    const given = Object.values(args).filter(isScalar).map(String);
    return [...instances, ...given].some((id) => ids.has(id));
  });
}

/** Where no call answers a word: the one that found what the user named, else one that found nothing, else the first. */
function nearestCall(calls: readonly MadeCall[], { question, entities }: Situation): MadeCall[] {
  const named = calls.find((call) => entities.some((entity) => entity.call === call && relevance(entity, question).named >= 0.8));
  const nearest = named ?? calls.find(({ value }) => isEmptyResult(value)) ?? calls[0];
  return nearest ? [nearest] : [];
}
