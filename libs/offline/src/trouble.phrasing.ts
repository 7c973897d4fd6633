import type { JsonValue } from '@toolloop/core';
import { COMMON_VERBS } from './english.js';
import { errorIn } from './error.document.js';
import { isJsonObject, plainText } from './json.js';
import type { Need } from './planner.js';
import type { Situation } from './situation.js';
import type { ToolProfile } from './tool.profile.js';
import { cut, ended, joined } from './value.phrasing.js';
import { humanised, wordsOf } from './words.js';

/** Says honestly what did not work. */
export function phraseFailures({ conversation, profiles }: Situation): string {
  return conversation.calls
    .filter(({ status }) => status === 'failed')
    .map(({ name, value }) => {
      const profile = profiles.get(name);
      return `I could not ${(profile && deedOf(profile)) ?? `call ${name}`}: ${ended(detailOf(value))}`;
    })
    .join('\n');
}

function detailOf(value: JsonValue): string {
  const error = errorIn(value);
  if (!isJsonObject(error)) return cut(plainText(error ?? 'it failed without saying why'));
  const texts = [error['detail'], error['message'], error['title'], isJsonObject(value) && value['human_readable']];
  return cut(texts.find((text) => typeof text === 'string') ?? 'it failed without saying why');
}

/** Asks for what a tool that would help still needs. */
export function phraseNeed({ profile, missing }: Need): string {
  const deed = deedOf(profile);
  const purpose = deed === undefined ? `For “${humanised(profile.method)}”` : `To ${deed}`;
  const choices = missing.find((one) => one.choices.length > 0);
  if (choices)
    return `${purpose} I need to know which ${humanised(choices.name)} you mean: ${joined(choices.choices.slice(0, 6), choices.choices.length - 6, 'or')}?`;
  return `${purpose} I need ${joined(missing.map(({ name, description }) => `\`${name}\`${explained(description)}`))}. Please tell me.`;
}

function explained(description: string): string {
  return description === '' ? '' : ` (${description.replace(/\.$/, '')})`;
}

const LONGEST_DEED = 60;

/** What a tool does, as an infinitive: its description when that begins with a verb, else its name when that does. */
function deedOf({ spec, method }: ToolProfile): string | undefined {
  const [sentence = ''] = spec.description.split(/\.(?:\s|$)/);
  if (sentence.length <= LONGEST_DEED && startsWithVerb(sentence)) return sentence.charAt(0).toLowerCase() + sentence.slice(1);
  return startsWithVerb(method) ? humanised(method) : undefined;
}

function startsWithVerb(text: string): boolean {
  return COMMON_VERBS.has(wordsOf(text)[0] ?? '');
}
