export { ANSWERS } from './answers.js';
export type { ErrorBody } from './answers.js';
export { atMost, object, optional, says, TEXT, words } from './form.js';
export type { Form, FormRule, FormSchema, ValueOf } from './form.js';
export { BODIES, MOST_LISTED } from './requests.js';
export { ROUTES } from './routes.js';
export type { AnsweredKey, AnswerOf, Asks, Route, RouteAnswer, RouteKey } from './routes.js';
