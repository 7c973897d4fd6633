import type { ModelRequest } from '@toolloop/protocol';
import { commandedTokens } from './commands.js';
import { readConversation, type Conversation } from './conversation.reader.js';
import { coverageOf, openWords, usedMentions, type Coverage } from './coverage.js';
import { DOING_VERBS } from './english.js';
import type { Scene } from './instance.choice.js';
import type { Vocabulary } from './names.js';
import { names, readQuestion, type Mention } from './question.reader.js';
import { entitiesIn } from './result.entities.js';
import { toolProfile, type ToolProfile } from './tool.profile.js';

/** Everything this model knows before it decides: read from one request, kept nowhere. */
export interface Situation extends Scene {
  readonly request: ModelRequest;
  readonly conversation: Conversation;
  readonly tools: readonly ToolProfile[];
  readonly vocabulary: Vocabulary;
  readonly today: string | undefined;
  /** Stems of the words the user may have given as an order: what stands where a command would. */
  readonly commanded: ReadonlySet<string>;
  /** Stems of those that are sure to ask for something to be done, not said. */
  readonly orders: ReadonlySet<string>;
  readonly coverage: Coverage;
  /** Stems of the words that still want an answer. */
  readonly open: readonly string[];
  /** What the user named and no call has used yet. */
  readonly unlocated: readonly Mention[];
}

/** Of a longer question only the beginning is read. */
const MOST_CHARACTERS = 4000;

export function readSituation(request: ModelRequest, givenToday?: string): Situation {
  const conversation = readConversation(request);
  const tools = request.tools.map(toolProfile);
  const profiles = new Map(tools.map((profile) => [profile.spec.id, profile]));
  const vocabulary = new Set(tools.flatMap(idStems));
  const today = givenToday ?? todayIn(request.instructions);
  const question = readQuestion(conversation.question.slice(0, MOST_CHARACTERS), {
    vocabulary,
    earlier: conversation.earlierQuestions,
    ...(today === undefined ? {} : { today }),
  });
  const known = (stem: string): boolean => vocabulary.has(stem);
  const commands = commandedTokens(question, known).flatMap((index) => question.tokens[index] ?? []);
  const commanded = new Set(commands.flatMap(({ stems }) => stems));
  const orders = new Set(commands.filter(({ lower }) => DOING_VERBS.has(lower)).flatMap(({ stems }) => stems));
  const coverage = coverageOf(question, conversation.calls, profiles, orders);
  const used = usedMentions(question.mentions, conversation.calls);
  return {
    request,
    conversation,
    tools,
    profiles,
    vocabulary,
    today,
    question,
    commanded,
    orders,
    coverage,
    entities: entitiesIn([...conversation.earlierCalls, ...conversation.calls]),
    open: openWords(question, coverage),
    unlocated: question.mentions.filter((mention) => names(mention) && !used.includes(mention)),
  };
}

function idStems({ methodStems, ownerStems, propertyStems }: ToolProfile): string[] {
  return [...methodStems, ...ownerStems, ...propertyStems];
}

/** The date the instructions give: "Today is 2026-03-01". */
function todayIn(instructions = ''): string | undefined {
  return /\b(?:today|date)\b[^\d\n]{0,40}(\d{4}-\d{2}-\d{2})/i.exec(instructions)?.[1];
}
