import { UsageService } from '@toolloop/core/usage';
import { CallerController, CurrentCaller } from './caller.js';
import type { Caller } from './http-options.js';
import { ListPages, type Pages } from './pages.js';
import { Route } from './route.decorator.js';
import type { Asks } from '@toolloop/protocol';

/** The use of models and tools: callers see their own, and operators that of their tenant. */
@CallerController()
export class UsageController {
  constructor(private readonly usage: UsageService) {}

  /** Reports the last 30 days of the caller's own tenant, unless the selection says otherwise. */
  @Route('GET /usage')
  async report(
    selection: Asks<'GET /usage'>,
    @CurrentCaller() caller: Caller,
    @ListPages() pages: Pages,
  ) {
    const {
      to = dayOf(Date.now()),
      from = dayOf(Date.now() - DEFAULT_DAYS * DAY_MS),
      ...rest
    } = selection;
    const own = selection.everywhere !== true &&
      selection.tenant === undefined && { tenant: caller.tenant };
    const report = await this.usage.report({ ...rest, ...own, from, to }, caller);
    if (report.next !== undefined) pages.link({ from, to, after: report.next });
    return report;
  }
}

const DAY_MS = 86_400_000;
const DEFAULT_DAYS = 30;

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
