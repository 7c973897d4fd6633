import { onPostgres } from './each-database.js';
import { isHandedOutAgain } from './lost-jobs-suite.js';

onPostgres('work whose job is gone from the queue', isHandedOutAgain);
