export { UsageService } from './usage.service.js';
export type { UsageReport, UsageReportQuery } from './usage.service.js';
export type { UsageAmounts, UsageDimension, UsageKey, UsageRow } from '../../contracts/usage.js';
