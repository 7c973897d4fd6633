import type { Situation } from './situation.js';
import { ANSWERED } from './coverage.js';
import { isReadOnly, orderStrength, strength, type ToolProfile } from './tool.profile.js';
import { commandsFor } from './commands.js';
import { knows } from './words.js';

/** How well a tool answers what is still unanswered. */
export interface Match {
  /** Share of the open words the tool answers, rare words counting more; from 0 to 1. */
  readonly share: number;
  /** Share of the tool's own method words that the user said; from 0 to 1. */
  readonly precision: number;
  /** Whether the user ordered what this tool changes. */
  readonly commanded: boolean;
  /** Whether the tool answers a word well enough to be called for it. */
  readonly passes: boolean;
  /** Whether it is a verb like "find" that points at the tool. */
  readonly pointed: boolean;
}

/** In id or enum, a word means the tool; below, it is only spoken of. */
const SURE = 0.7;

/** Ranks tools by the user's words, weighting each word by how few tools share it. */
export class ToolMatcher {
  private readonly weights: ReadonlyMap<string, number>;

  constructor(private readonly situation: Situation) {
    const declared = [...new Map(situation.tools.map((profile) => [profile.spec.declaredId, profile])).values()];
    const stems = situation.question.words.map((word) => word.stem);
    this.weights = new Map(stems.map((stem) => [stem, rarity(stem, declared)]));
  }

  match(profile: ToolProfile): Match {
    const { question, commanded } = this.situation;
    const wanted = question.words.filter((word) => !word.weak);
    const gains = [...new Set(wanted.map((word) => word.stem))].map((stem) => ({ stem, gain: this.gain(profile, stem) }));
    const weightOf = (stem: string): number => this.weights.get(stem) ?? 0;
    const answered = gains.reduce((sum, { stem, gain }) => sum + gain * weightOf(stem), 0);
    const total = gains.reduce((sum, { stem, gain }) => sum + (gain > 0 || this.isOpen(stem) ? weightOf(stem) : 0), 0);
    const said = new Set(wanted.map((word) => word.stem));
    const own = [...profile.methodStems];
    return {
      share: total === 0 ? 0 : answered / total,
      precision: own.length === 0 ? 0 : own.filter((stem) => knows(said, stem) > 0).length / own.length,
      commanded: !isReadOnly(profile) && commandsFor(profile, commanded),
      passes: gains.some(({ gain }) => gain >= ANSWERED),
      pointed: question.words.some((word) => word.weak && word.token >= 0 && strength(profile, word.stem) >= SURE),
    };
  }

  /** An entity tool that bears a word in its name may answer what a description merely touched. */
  private gain(profile: ToolProfile, stem: string): number {
    const covered = this.situation.coverage.get(stem) ?? 0;
    const found = this.situation.orders.has(stem) ? orderStrength(profile, stem) : strength(profile, stem);
    const better = profile.entity !== undefined && covered < SURE && found >= SURE;
    return covered < ANSWERED || better ? found : 0;
  }

  private isOpen(stem: string): boolean {
    return (this.situation.coverage.get(stem) ?? 0) < ANSWERED;
  }
}

/** BM25's inverse document frequency over the declared tools, from about 0.7 for a word in all of them. */
function rarity(stem: string, declared: readonly ToolProfile[]): number {
  const holders = declared.filter((profile) => strength(profile, stem) >= ANSWERED).length;
  return Math.log(1 + (declared.length + 1) / (holders + 0.5));
}
