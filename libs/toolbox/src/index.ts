export type { CallContext } from './call-context.js';
export {
  Clock,
  CurrentTime,
  GetCurrentTime,
  GetCurrentTimeInput,
  SystemClock,
} from './get-current-time.js';
export type { GetCurrentTimeOptions } from './get-current-time.js';
export {
  CodeInterpreter,
  CodeResult,
  InterpretCode,
  InterpretCodeInput,
} from './interpret-code.js';
export type { CodeOutcome, InterpretCodeOptions } from './interpret-code.js';
export {
  PerplexitySearch,
  PerplexityTool,
  SearchEngine,
  SearchHit,
  TavilySearch,
  TavilyTool,
  WebSearch,
  WebSearchInput,
} from './web-search.js';
export type { SearchApiOptions, SearchQuery, WebSearchOptions } from './web-search.js';
export { FilePage, ReadFile, ReadFileInput } from './files/read-file.js';
export type { ReadFileOptions } from './files/read-file.js';
export type { FilesOptions } from './files/root-directory.js';
export { FileMatch, FileMatches, SearchFiles, SearchFilesInput } from './files/search-files.js';
export type { SearchFilesOptions, SearchLimits } from './files/search-files.js';
export type { EgressOptions, HostLookup } from '@toolloop/protocol/egress';
export { FetchedPage, FetchPage, FetchPageInput } from './web-page/fetch-page.js';
export type { FetchPageOptions } from './web-page/fetch-page.js';
export { AskedField, AskPerson, AskPersonInput } from './ask-person.js';
export { WithdrawCall, WithdrawCallInput } from './withdraw-call.js';
export { WebhookNotifier } from './webhook-notifier.js';
export type { WebhookOptions } from './webhook-notifier.js';
