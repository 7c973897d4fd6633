import type { Question } from './question.reader.js';
import type { ToolProfile } from './tool.profile.js';
import { cut } from './value.phrasing.js';
import { humanised } from './words.js';

const ABOUT_MODEL =
  /\b(?:who|what) are you\b|\bare you (?:an? |the )?(?:real )?(?:llm|ai|bot|chatbot|model|language model|human|robot|person|chatgpt|gpt|claude)\b|\bwhat can you do(?: for me)?\s*\?*$|\bhow do you work\b|^\s*help\s*[.!?]*$/i;

/** Whether the user asks about the model itself. */
export function isAboutModel({ text }: Question): boolean {
  return ABOUT_MODEL.test(text);
}

export const SELF_DESCRIPTION =
  'I am a rule-based offline model, no LLM: I match your words with the names and descriptions of the tools I am given, and I need no key and no network. ' +
  "For a real model pass one to `ToolLoopModule.forRoot({ model })`, for instance `openai('gpt-5-mini')` of @toolloop/openai.";

const MOST_TOOLS = 12;

/** What this model can do with the tools at hand. */
export function phraseAbilities(tools: readonly ToolProfile[]): string {
  if (tools.length === 0) return 'I have no tools at the moment, so there is nothing I can look up or do.';
  const declared = [...new Map(tools.map((profile) => [profile.spec.declaredId, profile])).values()];
  const lines = declared.slice(0, MOST_TOOLS).map(({ method, spec }) => `- ${humanised(method)}: ${firstSentence(spec.description)}`);
  const more = declared.length - lines.length;
  return ['This is what I can do:', ...lines, ...(more > 0 ? [`… and ${more} more`] : [])].join('\n');
}

function firstSentence(text: string): string {
  return cut(/^.*?[.!?](?=\s|$)/s.exec(text)?.[0] ?? text);
}
