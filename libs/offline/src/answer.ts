import { phraseResults, phraseUnanswered } from './answer.phrasing.js';
import { DOING_VERBS } from './english.js';
import { isAboutModel, phraseAbilities, SELF_DESCRIPTION } from './help.phrasing.js';
import type { Need, Plan } from './planner.js';
import type { Situation } from './situation.js';
import { isReadOnly, orderStrength } from './tool.profile.js';
import { phraseFailures, phraseNeed } from './trouble.phrasing.js';
import { joined } from './value.phrasing.js';

/** The final answer in words. */
export function answerText(situation: Situation, { need }: Plan): string {
  const { question, tools } = situation;
  if (isAboutModel(question)) return `${SELF_DESCRIPTION}\n\n${phraseAbilities(tools)}`;
  const parts = [...outcomes(situation, need), need ? phraseNeed(need) : ''].filter((part) => part !== '');
  if (parts.length > 0) return parts.join('\n');
  const excuse = question.words.length > 0 ? 'I found no tool that fits your words. ' : '';
  return `${excuse}${SELF_DESCRIPTION}\n\n${phraseAbilities(tools)}`;
}

/** What became of the calls; before a question to the user only what they asked to know. */
function outcomes(situation: Situation, need: Need | undefined): string[] {
  const { calls } = situation.conversation;
  const hasResults = calls.some(({ status }) => status === 'succeeded' || status === 'denied');
  const isOpen = calls.some(({ status }) => status === 'open');
  return [
    hasResults && (!need || isReadOnly(need.profile)) ? phraseResults(situation) : '',
    phraseFailures(situation),
    isOpen ? 'I am still waiting for the result of a call.' : '',
    hasResults && !need ? phraseUnmet(situation) || phraseUnanswered(situation) : '',
  ];
}

/** Names the orders no tool could carry out, so that nobody takes them for done. */
function phraseUnmet({ question, orders, coverage, conversation, profiles }: Situation): string {
  const tried = conversation.calls.flatMap(({ name }) => profiles.get(name) ?? []);
  const isTried = (stem: string): boolean => tried.some((profile) => orderStrength(profile, stem) > 0);
  const isUnmet = (stem: string): boolean => orders.has(stem) && (coverage.get(stem) ?? 0) === 0 && !isTried(stem);
  const verbs = question.tokens
    .filter(({ lower, stems }) => DOING_VERBS.has(lower) && stems.some(isUnmet))
    .map(({ lower }) => `“${lower}”`);
  return verbs.length === 0 ? '' : `I found no tool to ${joined([...new Set(verbs)])}, so that was not done.`;
}
