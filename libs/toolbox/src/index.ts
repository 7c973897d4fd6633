export { Clock, GetCurrentTime } from './get-current-time.js';
export type { GetCurrentTimeOptions } from './get-current-time.js';
export { CodeInterpreter, InterpretCode } from './interpret-code.js';
export type { CodeOutcome, InterpretCodeOptions } from './interpret-code.js';
export {
  PerplexitySearch,
  PerplexityTool,
  SearchEngine,
  SearchHit,
  TavilySearch,
  TavilyTool,
  WebSearch,
} from './web-search.js';
export type { SearchApiOptions, SearchQuery, WebSearchOptions } from './web-search.js';
export { ReadFile } from './files/read-file.js';
export type { ReadFileOptions } from './files/read-file.js';
export type { FilesOptions } from './files/root-directory.js';
export { SearchFiles } from './files/search-files.js';
export type { SearchFilesOptions, SearchLimits } from './files/search-files.js';
export type { EgressOptions, HostLookup } from '@toolloop/protocol/egress';
export { FetchPage } from './web-page/fetch-page.js';
export type { FetchPageOptions } from './web-page/fetch-page.js';
export { AskPerson } from './ask-person.js';
export { WithdrawCall } from './withdraw-call.js';
export { WebhookNotifier } from './webhook-notifier.js';
export type { WebhookOptions } from './webhook-notifier.js';
