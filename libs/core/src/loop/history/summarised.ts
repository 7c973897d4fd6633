import { Logger } from '@nestjs/common';
import { HistoryPolicy, type HistoryContext, type HistoryCut } from '../../protocol/history.js';
import type { LanguageModel } from '../../protocol/language-model.js';
import { cutPoints, type Extent } from './cut-points.js';
import { toExtent, type MessageExtent, type TokenExtent } from './history-extent.js';
import { toSummaryLine, toSummaryRequest } from './summary-request.js';
import { SummaryCache, summaryKeys } from './summary.cache.js';

/** Who writes the summaries, and how. */
export interface SummaryOptions {
  /** @default the run's; a small one will do */
  readonly model?: LanguageModel;
  /** What the model is told to do, instead of our own words. */
  readonly instructions?: string;
}

/** A summary is there to be short; a model that goes on and on is cut. */
const MOST_CHARACTERS = 8_000;

/**
 * Sends the newest messages, as `slidingWindow` and `tokenBudget` do, behind a summary of what was left out, which a model writes when the cut moves.
 * Without it, for the model failed, the cut is made all the same and a `warning` says so. Summaries are kept in memory, per tenant.
 */
export function summarised(options: SummaryOptions & (MessageExtent | TokenExtent)): HistoryPolicy {
  return new SummarisedHistory(options, toExtent(options));
}

class SummarisedHistory extends HistoryPolicy {
  private readonly logger = new Logger(SummarisedHistory.name);
  private readonly summaries = new SummaryCache();

  constructor(
    private readonly options: SummaryOptions,
    private readonly extent: Extent,
  ) {
    super();
  }

  override async cut(context: HistoryContext): Promise<HistoryCut | undefined> {
    const points = cutPoints(context.messages, this.extent);
    const from = points.at(-1) ?? 0;
    // A summary that failed is tried again when the cut moves, or in the next run, and not at every step.
    if (from === (context.cut?.from ?? 0)) return undefined;
    const lines = context.messages.slice(0, from).map(toSummaryLine);
    const keys = summaryKeys(context.run.tenant, lines, points);
    const known = keys.findLastIndex((key) => this.summaries.get(key) !== undefined);
    const earlier = this.summaries.get(keys[known] ?? '');
    if (known === keys.length - 1) return { from, summary: earlier };
    return this.summarise(context, { from, earlier, lines: lines.slice(points[known] ?? 0), key: keys.at(-1) ?? '' });
  }

  private async summarise(context: HistoryContext, due: DueSummary): Promise<HistoryCut> {
    const { from, earlier, lines, key } = due;
    try {
      const answer = await context.ask(toSummaryRequest(earlier, lines, this.options.instructions), this.options.model);
      const summary = answer.slice(0, MOST_CHARACTERS);
      this.summaries.set(key, summary);
      return { from, summary };
    } catch (error) {
      if (context.signal.aborted) throw error;
      this.logger.warn(`The history of run ${context.run.runId} could not be summarised.`, error);
      return { from, summary: earlier, warning: 'The beginning of the conversation was left out, and could not be summarised.' };
    }
  }
}

/** What has to be summarised, and from where on. */
interface DueSummary {
  readonly from: number;
  readonly earlier: string | undefined;
  readonly lines: readonly string[];
  readonly key: string;
}
