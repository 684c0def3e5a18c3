import {
  agent,
  filter,
  pipeline,
  raw,
  registry,
  saga,
  scatterGather,
  schema,
  schemaMap,
  server,
  tool,
  where,
} from "registry-dsl";

// Schemas

const Address = schema(
  "Address",
  "1.0.0",
  {
    type: "object",
    properties: {
      street: { type: "string" },
      city: { type: "string" },
      state: { type: "string" },
      zipCode: { type: "string" },
      country: { type: "string" },
    },
    required: ["street", "city", "zipCode", "country"],
  },
  { description: "Shipping address" },
);

const CreateDocumentRequest = schema(
  "CreateDocumentRequest",
  "1.0.0",
  {
    type: "object",
    properties: {
      title: { type: "string", description: "Title", minLength: 1 },
      content: { type: "string", description: "Complete text" },
      tags: { type: "array", items: { type: "string" } },
      author: { type: "string", description: "Author" },
      chunkSize: { type: "integer", description: "Characters per chunk", default: 512, minimum: 1 },
      chunkOverlap: {
        type: "integer",
        description: "Characters shared by consecutive chunks",
        default: 50,
        minimum: 0,
      },
    },
    required: ["title", "content"],
    additionalProperties: false,
  },
  { description: "A document to store" },
);

const CreateTaskRequest = schema(
  "CreateTaskRequest",
  "1.0.0",
  {
    type: "object",
    properties: {
      title: { type: "string", description: "Short title", minLength: 1 },
      description: { type: "string", description: "Full description" },
      assignee: { type: "string", description: "Id of the assigned user" },
      priority: { type: "string", enum: ["low", "normal", "high"], default: "normal" },
    },
    required: ["title"],
    additionalProperties: false,
  },
  { description: "A task to create" },
);

const Document = schema(
  "Document",
  "1.0.0",
  {
    type: "object",
    properties: {
      id: { type: "string", description: "Such as doc-1" },
      title: { type: "string" },
      content: { type: "string" },
      tags: { type: "array", items: { type: "string" } },
      author: { type: "string" },
      createdAt: { type: "string", format: "date-time" },
      updatedAt: { type: "string", format: "date-time" },
      chunkCount: { type: "integer", description: "Number of chunks", minimum: 1 },
    },
    required: ["id", "title", "content"],
  },
  { description: "A stored document" },
);

const FetchRequest = schema(
  "FetchRequest",
  "1.0.0",
  {
    type: "object",
    properties: {
      url: { type: "string", description: "URL", format: "uri" },
      maxLength: { type: "integer", description: "Maximum number of characters to return", minimum: 1 },
    },
    required: ["url"],
    additionalProperties: false,
  },
  { description: "A web page to fetch" },
);

const FetchedPage = schema(
  "FetchedPage",
  "1.0.0",
  {
    type: "object",
    properties: {
      url: { type: "string", description: "Requested URL", format: "uri" },
      title: { type: "string", minLength: 1 },
      content: { type: "string" },
      contentType: { type: "string" },
      truncated: { type: "boolean", description: "Whether maxLength truncated the content" },
    },
    required: ["url", "title", "content"],
  },
  { description: "A web page as text" },
);

const KnowledgeEntity = schema(
  "KnowledgeEntity",
  "1.0.0",
  {
    type: "object",
    properties: {
      name: { type: "string", minLength: 1 },
      entityType: { type: "string", description: "Type of the entity" },
      observations: { type: "array", description: "Observations about the entity", items: { type: "string" } },
    },
    required: ["name", "entityType"],
  },
  { description: "A node of the knowledge graph, identified by its name" },
);

const KnowledgeRelation = schema(
  "KnowledgeRelation",
  "1.0.0",
  {
    type: "object",
    properties: {
      from: { type: "string", description: "Name of an entity" },
      to: { type: "string", description: "Name of an entity" },
      relationType: { type: "string", description: "In active voice, such as follows" },
    },
    required: ["from", "to", "relationType"],
  },
  { description: "An edge of the knowledge graph" },
);

const Notification = schema(
  "Notification",
  "1.0.0",
  {
    type: "object",
    properties: {
      id: { type: "string", description: "Such as notif-1" },
      userId: { type: "string", description: "Recipient" },
      subject: { type: "string" },
      body: { type: "string" },
      channel: { type: "string", enum: ["in_app", "email", "sms", "push"] },
      sentAt: { type: "string", format: "date-time" },
    },
    required: ["id", "userId", "subject", "body", "channel"],
  },
  { description: "A notification that was sent" },
);

const OrderLine = schema(
  "OrderLine",
  "1.0.0",
  {
    type: "object",
    properties: {
      productId: { type: "string", description: "Such as prod-1" },
      quantity: { type: "integer", minimum: 1 },
      price: { type: "number", description: "Price per piece", minimum: 0 },
    },
    required: ["productId", "quantity"],
  },
  { description: "Quantity of one product" },
);

const PaymentMethod = schema(
  "PaymentMethod",
  "1.0.0",
  {
    type: "object",
    properties: {
      type: { type: "string", enum: ["credit_card", "paypal", "bank_transfer"] },
      token: { type: "string", description: "Payment token; tok_declined is always declined" },
    },
    required: ["type", "token"],
  },
  { description: "Payment method" },
);

const OrderRequest = schema(
  "OrderRequest",
  "1.0.0",
  {
    type: "object",
    properties: {
      orderId: { type: "string", description: "Order id; an order is processed once", minLength: 1 },
      customerId: { type: "string" },
      items: { type: "array", items: OrderLine, minItems: 1 },
      totalAmount: { type: "number", description: "Amount in units of the currency", minimum: 0 },
      currency: { type: "string", description: "ISO 4217 code", default: "USD", minLength: 3, maxLength: 3 },
      shippingAddress: Address,
      paymentMethod: PaymentMethod,
    },
    required: ["orderId", "customerId", "items", "totalAmount", "shippingAddress", "paymentMethod"],
    additionalProperties: false,
  },
  { description: "An order to process, with its total" },
);

const OrderResult = schema(
  "OrderResult",
  "1.0.0",
  {
    type: "object",
    properties: {
      orderId: { type: "string" },
      status: { type: "string", enum: ["completed", "compensated", "compensation_failed"] },
      reservationId: { type: "string" },
      transactionId: { type: "string" },
      trackingNumber: { type: "string" },
      estimatedDelivery: { type: "string", format: "date" },
      error: { type: "string" },
    },
    required: ["orderId", "status"],
  },
  { description: "Result of an order" },
);

const PageRequest = schema(
  "PageRequest",
  "1.0.0",
  {
    type: "object",
    properties: {
      limit: {
        type: "integer",
        description: "Maximum number of items to return",
        default: 10,
        minimum: 1,
        maximum: 100,
      },
      offset: { type: "integer", description: "Number of items to skip", default: 0, minimum: 0 },
    },
    additionalProperties: false,
  },
  { description: "A page of a list" },
);

const PaymentRequest = schema(
  "PaymentRequest",
  "1.0.0",
  {
    type: "object",
    properties: {
      orderId: { type: "string", minLength: 1 },
      amount: { type: "number", description: "In units of the currency", minimum: 0 },
      currency: { type: "string", description: "ISO 4217 code", default: "USD", minLength: 3, maxLength: 3 },
      paymentMethod: PaymentMethod,
    },
    required: ["orderId", "amount", "paymentMethod"],
    additionalProperties: false,
  },
  { description: "A charge to make or check" },
);

const ResearchReport = schema(
  "ResearchReport",
  "1.0.0",
  {
    type: "object",
    properties: {
      summary: { type: "string" },
      findings: {
        type: "array",
        items: {
          type: "object",
          properties: {
            claim: { type: "string" },
            evidence: { type: "string" },
            confidence: { type: "number", minimum: 0, maximum: 1 },
            sources: { type: "array", items: { type: "string" } },
          },
          required: ["claim", "evidence", "confidence"],
        },
      },
      recommendations: { type: "array", items: { type: "string" } },
      relatedTopics: { type: "array", items: { type: "string" } },
    },
    required: ["summary", "findings"],
  },
  { description: "Output of the research agent" },
);

const ResearchRequest = schema(
  "ResearchRequest",
  "1.0.0",
  {
    type: "object",
    properties: {
      topic: { type: "string", description: "Topic to research", minLength: 1 },
      depth: {
        type: "string",
        description: "Depth of the research",
        enum: ["shallow", "medium", "deep"],
        default: "medium",
      },
      sources: { type: "array", description: "Sources to prefer", items: { type: "string" } },
      maxResults: { type: "integer", default: 10, minimum: 1 },
    },
    required: ["topic"],
  },
  { description: "Input of the research agent" },
);

const Reservation = schema(
  "Reservation",
  "1.0.0",
  {
    type: "object",
    properties: {
      reservationId: { type: "string", description: "Such as res-1" },
      orderId: { type: "string" },
      items: { type: "array", items: OrderLine },
      status: { type: "string", enum: ["reserved", "released"] },
    },
    required: ["reservationId", "orderId", "items", "status"],
  },
  { description: "Stock reserved for an order" },
);

const SearchFilters = schema(
  "SearchFilters",
  "1.0.0",
  {
    type: "object",
    properties: {
      dateRange: {
        type: "object",
        description: "Creation date, inclusive",
        properties: {
          start: { type: "string", description: "First day", format: "date" },
          end: { type: "string", description: "Last day", format: "date" },
        },
      },
      tags: { type: "array", description: "Match at least one of these tags", items: { type: "string" } },
      author: { type: "string", description: "Author" },
    },
    additionalProperties: false,
  },
  { description: "Filters for documents; all must match" },
);

const SearchQuery = schema(
  "SearchQuery",
  "1.0.0",
  {
    type: "object",
    properties: {
      query: { type: "string", description: "Search words", minLength: 1 },
      limit: {
        type: "integer",
        description: "Maximum number of items to return",
        default: 10,
        minimum: 1,
        maximum: 100,
      },
      offset: { type: "integer", description: "Number of items to skip", default: 0, minimum: 0 },
      filters: SearchFilters,
    },
    required: ["query"],
    additionalProperties: false,
  },
  { description: "A search query with paging" },
);

const SearchResult = schema(
  "SearchResult",
  "1.0.0",
  {
    type: "object",
    properties: {
      id: { type: "string", description: "Id of the hit, such as doc-1 or user-1" },
      title: { type: "string", description: "Title or name" },
      snippet: { type: "string", description: "Matching part" },
      score: { type: "number", description: "Relevance, 1 is best", minimum: 0, maximum: 1 },
      url: { type: "string", description: "URL of the item", format: "uri" },
      metadata: { type: "object", description: "Additional metadata" },
    },
    required: ["id", "title", "score"],
  },
  { description: "A search hit" },
);

const SearchResults = schema(
  "SearchResults",
  "1.0.0",
  {
    type: "object",
    properties: {
      results: { type: "array", items: SearchResult },
      totalCount: { type: "integer", description: "Total number of matches on all pages", minimum: 0 },
      hasMore: { type: "boolean", description: "Whether another page follows" },
    },
    required: ["results"],
  },
  { description: "Hits, best first" },
);

const Shipment = schema(
  "Shipment",
  "1.0.0",
  {
    type: "object",
    properties: {
      trackingNumber: { type: "string", description: "Such as track-1" },
      orderId: { type: "string" },
      address: Address,
      items: { type: "array", items: OrderLine },
      status: { type: "string", enum: ["created", "cancelled"] },
      estimatedDelivery: { type: "string", format: "date" },
    },
    required: ["trackingNumber", "orderId", "status"],
  },
  { description: "A shipment and its status" },
);

const SummarizeRequest = schema(
  "SummarizeRequest",
  "1.0.0",
  {
    type: "object",
    properties: {
      content: { type: "string", description: "The text to summarize" },
      maxLength: { type: "integer", description: "Approximate number of words", minimum: 1 },
      style: { type: "string", enum: ["bullet", "paragraph", "executive"], default: "paragraph" },
    },
    required: ["content"],
  },
  { description: "Input of the summarizer agent" },
);

const SummarizeResponse = schema(
  "SummarizeResponse",
  "1.0.0",
  {
    type: "object",
    properties: {
      summary: { type: "string" },
      keyPoints: { type: "array", items: { type: "string" } },
      wordCount: { type: "integer", minimum: 0 },
    },
    required: ["summary"],
  },
  { description: "Output of the summarizer agent" },
);

const Task = schema(
  "Task",
  "1.0.0",
  {
    type: "object",
    properties: {
      id: { type: "string", description: "Such as task-1" },
      title: { type: "string" },
      description: { type: "string" },
      assignee: { type: "string", description: "Id of a user" },
      priority: { type: "string", enum: ["low", "normal", "high"] },
      status: { type: "string", enum: ["open", "completed"] },
      createdAt: { type: "string", format: "date-time" },
      completedAt: { type: "string", format: "date-time" },
    },
    required: ["id", "title", "status"],
  },
  { description: "A task" },
);

const Transaction = schema(
  "Transaction",
  "1.0.0",
  {
    type: "object",
    properties: {
      transactionId: { type: "string", description: "Such as txn-1" },
      orderId: { type: "string" },
      amount: { type: "number", minimum: 0 },
      currency: { type: "string" },
      status: { type: "string", enum: ["charged", "refunded"] },
    },
    required: ["transactionId", "orderId", "amount", "status"],
  },
  { description: "A charge and its status" },
);

const User = schema(
  "User",
  "1.0.0",
  {
    type: "object",
    properties: {
      id: { type: "string", description: "Such as user-1" },
      name: { type: "string" },
      email: { type: "string", format: "email" },
      role: { type: "string" },
      bio: { type: "string" },
    },
    required: ["id", "name"],
  },
  { description: "A person" },
);

// Servers

const documentService = server("document-service", "1.2.0", {
  description: "Stores documents in chunks and ranks them by relevance",
  metadata: { owner: "knowledge-team" },
});

const fetchServer = server("fetch-server", "1.2.3", {
  description: "Fetches web pages as text",
  metadata: { owner: "knowledge-team" },
});

const inventoryService = server("inventory-service", "1.0.0", {
  description: "Reserves stock for orders",
  metadata: { owner: "commerce-team" },
});

const memoryServer = server("memory-server", "1.0.0", {
  description: "Keeps a knowledge graph of entities and relations",
  metadata: { owner: "knowledge-team" },
});

const notificationService = server("notification-service", "1.0.0", {
  description: "Notifies users over several channels",
  metadata: { owner: "workflow-team" },
});

const paymentService = server("payment-service", "1.0.0", {
  description: "Charges and refunds orders",
  metadata: { owner: "commerce-team" },
});

const shippingService = server("shipping-service", "1.0.0", {
  description: "Ships orders, tracks and cancels shipments",
  metadata: { owner: "commerce-team" },
});

const taskService = server("task-service", "1.0.0", {
  description: "Manages tasks and their assignees",
  metadata: { owner: "workflow-team" },
});

const timeServer = server("time-server", "1.0.0", {
  description: "Returns the time in a time zone; runs over stdio",
  metadata: { owner: "platform-team" },
});

const userService = server("user-service", "1.1.0", {
  description: "Lists users and finds them by bio",
  metadata: { owner: "identity-team" },
});

// Tools

const completeTask = tool("complete_task", "1.0.0", {
  description: "Complete a task; repeated calls change nothing",
  metadata: { tags: ["tasks"] },
  inputSchema: {
    type: "object",
    properties: { id: { type: "string", description: "Such as task-1" } },
    required: ["id"],
    additionalProperties: false,
  },
  outputSchema: Task,
}).source(taskService);

const createDocument = tool("create_document", "1.0.0", {
  description: "Store a document, split into overlapping chunks",
  metadata: { tags: ["documents"] },
  inputSchema: CreateDocumentRequest,
  outputSchema: Document,
}).source(documentService);

const createEntities = tool("create_entities", "1.0.0", {
  description: "Add entities to the knowledge graph; those that exist are left as they are",
  metadata: { tags: ["knowledge"] },
  inputSchema: {
    type: "object",
    properties: { entities: { type: "array", items: KnowledgeEntity } },
    required: ["entities"],
    additionalProperties: false,
  },
  outputSchema: {
    type: "object",
    properties: { entities: { type: "array", description: "New items", items: KnowledgeEntity } },
    required: ["entities"],
  },
}).source(memoryServer);

const createNote = tool("create_note", "1.0.0", {
  title: "Create note",
  description: "Store a short text: create_document with small chunks and the default tag note",
  metadata: { tags: ["documents", "alias"] },
  inputSchema: CreateDocumentRequest,
  outputSchema: Document,
})
  .source(documentService, {
    tool: "create_document",
    defaults: { chunkSize: 256, chunkOverlap: 0, tags: ["note"] },
    hideFields: ["chunkOverlap"],
  });

const createRelations = tool("create_relations", "1.0.0", {
  description: "Connect entities of the knowledge graph; all of the relations or none",
  metadata: { tags: ["knowledge"] },
  inputSchema: {
    type: "object",
    properties: { relations: { type: "array", items: KnowledgeRelation } },
    required: ["relations"],
    additionalProperties: false,
  },
  outputSchema: {
    type: "object",
    properties: { relations: { type: "array", description: "New items", items: KnowledgeRelation } },
    required: ["relations"],
  },
}).source(memoryServer);

const createTask = tool("create_task", "1.0.0", {
  description: "Create a task, with or without an assignee",
  metadata: { tags: ["tasks"] },
  inputSchema: CreateTaskRequest,
  outputSchema: Task,
}).source(taskService);

const createTaskAndNotifyInput = {
  type: "object",
  properties: {
    title: { type: "string", description: "Short title", minLength: 1 },
    description: { type: "string", description: "Full description" },
    assignee: { type: "string", description: "Id of the assigned user, who is notified", minLength: 1 },
    priority: { type: "string", enum: ["low", "normal", "high"], default: "normal" },
  },
  required: ["title", "assignee"],
  additionalProperties: false,
} as const;

const sendNotification = tool("send_notification", "1.0.0", {
  description: "Send a notification to one user over one channel",
  metadata: { tags: ["notifications"] },
  inputSchema: {
    type: "object",
    properties: {
      userId: { type: "string", description: "Such as user-1", minLength: 1 },
      subject: { type: "string" },
      body: { type: "string" },
      channel: { type: "string", enum: ["in_app", "email", "sms", "push"], default: "in_app" },
    },
    required: ["userId", "subject", "body"],
    additionalProperties: false,
  },
  outputSchema: Notification,
}).source(notificationService);

const createTaskAndNotify = tool("create_task_and_notify", "1.0.0", {
  description: "Create a task and notify its assignee; returns both",
  metadata: { tags: ["tasks", "notifications"] },
  inputSchema: createTaskAndNotifyInput,
  outputSchema: {
    type: "object",
    properties: { task: Task, notification: Notification },
    required: ["task", "notification"],
  },
})
  .composition(
    pipeline(createTaskAndNotifyInput)
      .step("create_task", createTask)
      .step("notify", sendNotification, ({ steps }) => ({
        userId: raw({ input: { path: "$.assignee" } }),
        subject: "New task assigned",
        body: steps.create_task.title,
        channel: "in_app",
      }))
      .step("both", schemaMap({ task: "$.task", notification: "$.notification" }), ({ steps }) => ({
        task: steps.create_task,
        notification: steps.notify,
      })),
  );

const fetch = tool("fetch", "1.2.3", {
  description: "Fetch a web page as text",
  metadata: { tags: ["web"] },
  inputSchema: FetchRequest,
  outputSchema: FetchedPage,
}).source(fetchServer);

const fetchAndStore = tool("fetch_and_store", "1.0.0", {
  description: "Fetch a web page and keep it as a document under its title",
  metadata: { tags: ["documents", "web"] },
  inputSchema: FetchRequest,
  outputSchema: Document,
})
  .composition(
    pipeline(FetchRequest)
      .step("fetch_content", fetch)
      .step("store_document", createDocument, ({ steps }) => ({
        title: steps.fetch_content.title,
        content: steps.fetch_content.content,
        tags: ["web"],
      })),
  );

const getCurrentTime = tool("get_current_time", "1.0.0", {
  description: "Get the current time in a time zone",
  metadata: { tags: ["time"] },
  inputSchema: {
    type: "object",
    properties: {
      timezone: {
        type: "string",
        description: "IANA zone such as Europe/Berlin, or an offset such as +02:00",
      },
    },
    required: ["timezone"],
    additionalProperties: false,
  },
  outputSchema: {
    type: "object",
    properties: {
      timezone: { type: "string" },
      datetime: { type: "string", description: "Local time with its offset", format: "date-time" },
      dayOfWeek: { type: "string" },
      utcOffset: { type: "string" },
      isDst: { type: "boolean", description: "Whether daylight saving time is on" },
    },
    required: ["timezone", "datetime"],
  },
}).source(timeServer);

const getDocument = tool("get_document", "1.0.0", {
  description: "Read one document by its id",
  metadata: { tags: ["documents"] },
  inputSchema: {
    type: "object",
    properties: { id: { type: "string", description: "Such as doc-1" } },
    required: ["id"],
    additionalProperties: false,
  },
  outputSchema: Document,
}).source(documentService);

const getNotifications = tool("get_notifications", "1.0.0", {
  description: "Read what was sent to one user, oldest first",
  metadata: { tags: ["notifications"] },
  inputSchema: {
    type: "object",
    properties: {
      userId: { type: "string", description: "Such as user-1" },
      channel: { type: "string", enum: ["in_app", "email", "sms", "push"] },
      limit: {
        type: "integer",
        description: "Maximum number of items to return",
        default: 10,
        minimum: 1,
        maximum: 100,
      },
      offset: { type: "integer", description: "Number of items to skip", default: 0, minimum: 0 },
    },
    required: ["userId"],
    additionalProperties: false,
  },
  outputSchema: {
    type: "object",
    properties: {
      notifications: { type: "array", items: Notification },
      totalCount: { type: "integer", description: "Total number of matches on all pages", minimum: 0 },
      hasMore: { type: "boolean", description: "Whether another page follows" },
    },
    required: ["notifications"],
  },
}).source(notificationService);

const getPageTitle = tool("get_page_title", "1.0.0", {
  description: "Get the URL and title of a web page",
  metadata: { tags: ["web", "projection"] },
  inputSchema: FetchRequest,
  outputSchema: {
    type: "object",
    properties: { url: { type: "string", format: "uri" }, title: { type: "string" } },
    required: ["url", "title"],
  },
  outputTransform: { url: "$.url", title: { coalesce: { paths: ["$.title", "$.url"] } } },
}).source(fetchServer, { tool: "fetch", defaults: { maxLength: 1 }, hideFields: ["maxLength"] });

const getUser = tool("get_user", "1.0.0", {
  description: "Read one user by id",
  metadata: { tags: ["people"] },
  inputSchema: {
    type: "object",
    properties: { id: { type: "string", description: "Such as user-1" } },
    required: ["id"],
    additionalProperties: false,
  },
  outputSchema: User,
}).source(userService);

const getWebpage = tool("get_webpage", "1.0.0", {
  description: "Read the beginning of a web page, at most 2000 characters",
  metadata: { tags: ["web", "alias"] },
  inputSchema: FetchRequest,
  outputSchema: FetchedPage,
}).source(fetchServer, { tool: "fetch", defaults: { maxLength: 2000 }, hideFields: ["maxLength"] });

const inventoryCheck = tool("inventory_check", "1.0.0", {
  description: "List the stock and its reservations",
  annotations: { readOnlyHint: true },
  metadata: { tags: ["orders"] },
  inputSchema: {
    type: "object",
    properties: {
      productId: { type: "string", description: "Only this product" },
      orderId: { type: "string", description: "Only reservations of this order" },
    },
    additionalProperties: false,
  },
  outputSchema: {
    type: "object",
    properties: {
      products: {
        type: "array",
        items: {
          type: "object",
          properties: {
            productId: { type: "string" },
            name: { type: "string" },
            onHand: { type: "integer", minimum: 0 },
            reserved: { type: "integer", minimum: 0 },
            available: { type: "integer", minimum: 0 },
          },
          required: ["productId", "available"],
        },
      },
      reservations: { type: "array", items: Reservation },
    },
    required: ["products", "reservations"],
  },
}).source(inventoryService);

const inventoryRelease = tool("inventory_release", "1.0.0", {
  description: "Release reserved stock; repeated calls change nothing",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
  metadata: { tags: ["orders", "compensation"] },
  inputSchema: {
    type: "object",
    properties: {
      reservationId: { type: "string", description: "Id of one reservation" },
      orderId: { type: "string", description: "Or all reservations of this order" },
    },
    additionalProperties: false,
  },
  outputSchema: {
    type: "object",
    properties: {
      reservations: { type: "array", items: Reservation },
      changed: { type: "integer", description: "Number of records changed by this call", minimum: 0 },
    },
    required: ["reservations", "changed"],
  },
}).source(inventoryService);

const inventoryReserve = tool("inventory_reserve", "1.0.0", {
  description: "Reserve stock for all items of an order, or for none",
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false },
  metadata: { tags: ["orders"] },
  inputSchema: {
    type: "object",
    properties: {
      orderId: { type: "string", minLength: 1 },
      items: { type: "array", items: OrderLine, minItems: 1 },
    },
    required: ["orderId", "items"],
    additionalProperties: false,
  },
  outputSchema: Reservation,
}).source(inventoryService);

const listDocuments = tool("list_documents", "1.0.0", {
  description: "List the documents without their content, oldest first",
  metadata: { tags: ["documents"] },
  inputSchema: PageRequest,
  outputSchema: {
    type: "object",
    properties: {
      documents: {
        type: "array",
        items: {
          type: "object",
          properties: {
            id: { type: "string" },
            title: { type: "string" },
            tags: { type: "array", items: { type: "string" } },
            createdAt: { type: "string", format: "date-time" },
          },
          required: ["id", "title"],
        },
      },
      totalCount: { type: "integer", description: "Total number of matches on all pages", minimum: 0 },
      hasMore: { type: "boolean", description: "Whether another page follows" },
    },
    required: ["documents"],
  },
}).source(documentService);

const listTasks = tool("list_tasks", "1.0.0", {
  description: "List tasks, oldest first, of one assignee or in one status if wanted",
  metadata: { tags: ["tasks"] },
  inputSchema: {
    type: "object",
    properties: {
      assignee: { type: "string", description: "Id of a user" },
      status: { type: "string", enum: ["open", "completed"] },
      limit: {
        type: "integer",
        description: "Maximum number of items to return",
        default: 10,
        minimum: 1,
        maximum: 100,
      },
      offset: { type: "integer", description: "Number of items to skip", default: 0, minimum: 0 },
    },
    additionalProperties: false,
  },
  outputSchema: {
    type: "object",
    properties: {
      tasks: { type: "array", items: Task },
      totalCount: { type: "integer", description: "Total number of matches on all pages", minimum: 0 },
      hasMore: { type: "boolean", description: "Whether another page follows" },
    },
    required: ["tasks"],
  },
}).source(taskService);

const listUsers = tool("list_users", "1.0.0", {
  description: "List all users, by id",
  metadata: { tags: ["people"] },
  inputSchema: PageRequest,
  outputSchema: {
    type: "object",
    properties: {
      users: { type: "array", items: User },
      totalCount: { type: "integer", description: "Total number of matches on all pages", minimum: 0 },
      hasMore: { type: "boolean", description: "Whether another page follows" },
    },
    required: ["users"],
  },
}).source(userService);

const searchDocuments = tool("search_documents", "1.0.0", {
  title: "Search documents",
  description: "Find documents by relevance to a query",
  metadata: { tags: ["documents", "search"] },
  inputSchema: SearchQuery,
  outputSchema: SearchResults,
}).source(documentService);

const searchUsersByBio = tool("search_users_by_bio", "1.0.0", {
  description: "Find users whose bio matches a query",
  metadata: { tags: ["people", "search"] },
  inputSchema: {
    type: "object",
    properties: {
      query: { type: "string", description: "Search words", minLength: 1 },
      limit: {
        type: "integer",
        description: "Maximum number of items to return",
        default: 10,
        minimum: 1,
        maximum: 100,
      },
      offset: { type: "integer", description: "Number of items to skip", default: 0, minimum: 0 },
    },
    required: ["query"],
    additionalProperties: false,
  },
  outputSchema: SearchResults,
}).source(userService);

const multiSearch = tool("multi_search", "1.0.0", {
  description: "Search documents and users; returns one ranked list",
  metadata: { tags: ["search"] },
  inputSchema: SearchQuery,
  outputSchema: SearchResults,
})
  .composition(
    pipeline(SearchQuery)
      .step(
        "gather",
        scatterGather({
          aggregation: [
            { flatten: true },
            { sort: { field: "$.score", order: "desc" } },
            { dedupe: { field: "$.id" } },
            { limit: { count: 20 } },
          ],
          timeoutMs: 5000,
          failFast: false,
        })
          .target(
            pipeline()
              .step("search", searchDocuments)
              .step("hits", filter(where("$.score", "gte", 0.05)), ({ steps }) => steps.search.results),
          )
          .target(
            pipeline()
              .step("search", searchUsersByBio, ({ input }) => ({ query: input.query, limit: input.limit }))
              .step("hits", filter(where("$.score", "gte", 0.05)), ({ steps }) => steps.search.results),
          ),
      )
      .step("results", schemaMap({ results: "$" })),
  );

const paymentAuthorize = tool("payment_authorize", "1.0.0", {
  description: "Check whether a charge would succeed, without charging",
  annotations: { readOnlyHint: true },
  metadata: { tags: ["orders"] },
  inputSchema: PaymentRequest,
  outputSchema: {
    type: "object",
    properties: {
      orderId: { type: "string" },
      authorized: { type: "boolean" },
      reason: { type: "string", description: "Reason if not authorized" },
      transactions: { type: "array", items: Transaction },
    },
    required: ["orderId", "authorized", "transactions"],
  },
}).source(paymentService);

const paymentCharge = tool("payment_charge", "1.0.0", {
  description: "Charge an order; every call makes a new charge",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  metadata: { tags: ["orders"] },
  inputSchema: PaymentRequest,
  outputSchema: Transaction,
}).source(paymentService);

const paymentRefund = tool("payment_refund", "1.0.0", {
  description: "Refund in full; repeated calls change nothing",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
  metadata: { tags: ["orders", "compensation"] },
  inputSchema: {
    type: "object",
    properties: {
      transactionId: { type: "string", description: "Id of one transaction" },
      orderId: { type: "string", description: "Or all transactions of this order" },
    },
    additionalProperties: false,
  },
  outputSchema: {
    type: "object",
    properties: {
      transactions: { type: "array", items: Transaction },
      changed: { type: "integer", description: "Number of records changed by this call", minimum: 0 },
    },
    required: ["transactions", "changed"],
  },
}).source(paymentService);

const shippingCreate = tool("shipping_create", "1.0.0", {
  description: "Create a shipping label and schedule the pickup",
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false },
  metadata: { tags: ["orders"] },
  inputSchema: {
    type: "object",
    properties: {
      orderId: { type: "string", minLength: 1 },
      address: Address,
      items: { type: "array", items: OrderLine },
    },
    required: ["orderId", "address", "items"],
    additionalProperties: false,
  },
  outputSchema: Shipment,
}).source(shippingService);

const shippingCancel = tool("shipping_cancel", "1.0.0", {
  description: "Cancel a shipment; repeated calls change nothing",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
  metadata: { tags: ["orders", "compensation"] },
  inputSchema: {
    type: "object",
    properties: {
      trackingNumber: { type: "string", description: "Tracking number of one shipment" },
      orderId: { type: "string", description: "Or all shipments of this order" },
    },
    additionalProperties: false,
  },
  outputSchema: {
    type: "object",
    properties: {
      shipments: { type: "array", items: Shipment },
      changed: { type: "integer", description: "Number of records changed by this call", minimum: 0 },
    },
    required: ["shipments", "changed"],
  },
}).source(shippingService);

const processOrder = tool("process_order", "1.0.0", {
  description: "Reserve, charge and ship an order; a failure compensates completed steps",
  metadata: { tags: ["orders"] },
  inputSchema: OrderRequest,
  outputSchema: OrderResult,
})
  .composition(
    saga(OrderRequest, { id: (input) => input.orderId, timeoutMs: 30000 })
      .step("reserve_inventory", {
        name: "Reserve inventory",
        action: inventoryReserve,
        compensate: inventoryRelease,
        input: ({ input }) => ({ orderId: input.orderId, items: input.items }),
        compensateInput: ({ input }) => ({ orderId: input.orderId }),
        compensateOnUnknown: true,
      })
      .step("charge_payment", {
        name: "Charge payment",
        action: paymentCharge,
        compensate: paymentRefund,
        input: ({ input }) => ({
          orderId: input.orderId,
          amount: input.totalAmount,
          currency: input.currency,
          paymentMethod: input.paymentMethod,
        }),
        compensateInput: ({ input }) => ({ orderId: input.orderId }),
        compensateOnUnknown: true,
      })
      .step("create_shipment", {
        name: "Create shipment",
        action: shippingCreate,
        compensate: shippingCancel,
        input: ({ input }) => ({ orderId: input.orderId, address: input.shippingAddress, items: input.items }),
        compensateInput: ({ input }) => ({ orderId: input.orderId }),
        compensateOnUnknown: true,
      })
      .output(({ input, steps }) => ({
        orderId: input.orderId,
        status: "completed",
        reservationId: steps.reserve_inventory.reservationId,
        transactionId: steps.charge_payment.transactionId,
        trackingNumber: steps.create_shipment.trackingNumber,
        estimatedDelivery: steps.create_shipment.estimatedDelivery,
      })),
  );

const readGraph = tool("read_graph", "1.0.0", {
  description: "Read the whole knowledge graph",
  metadata: { tags: ["knowledge"] },
  inputSchema: { type: "object", properties: {}, additionalProperties: false },
  outputSchema: {
    type: "object",
    properties: {
      entities: { type: "array", items: KnowledgeEntity },
      relations: { type: "array", items: KnowledgeRelation },
    },
    required: ["entities", "relations"],
  },
}).source(memoryServer);

// Agents

const researchAgent = agent("research-agent", "2.1.0", {
  description: "Gathers and weighs information on a topic",
  url: "http://research-agent.internal:9000",
  protocolVersion: "0.2.1",
  defaultInputModes: ["text", "application/json"],
  defaultOutputModes: ["text", "application/json"],
  provider: { organization: "Knowledge team", url: "https://knowledge.example.com" },
  capabilities: {
    streaming: true,
    pushNotifications: false,
    stateTransitionHistory: true,
    extensions: [{ uri: "urn:agentgateway:sbom", description: "Tools of this agent", required: true }],
  },
})
  .skill("research_topic", {
    name: "Research topic",
    description: "Researches a topic and returns findings, evidence and confidence",
    tags: ["research", "analysis", "citations"],
    examples: ["Research the state of quantum computing", "Compare the markets for electric vehicles in 2026"],
    inputModes: ["text", "application/json"],
    outputModes: ["text", "application/json"],
    inputSchema: ResearchRequest,
    outputSchema: ResearchReport,
  })
  .skill("quick_lookup", {
    name: "Quick lookup",
    description: "Answers a factual question without deep research",
    tags: ["lookup", "facts"],
    examples: ["What is the capital of France?"],
    inputModes: ["text"],
    outputModes: ["text"],
  })
  .dependsOn(searchDocuments, fetch, createEntities);

const summarizerAgent = agent("summarizer-agent", "2.0.0", {
  description: "Turns long texts into short ones",
  url: "http://summarizer.internal:9001",
  protocolVersion: "0.2.1",
  defaultInputModes: ["text", "application/json"],
  defaultOutputModes: ["text", "application/json"],
  provider: { organization: "Knowledge team", url: "https://knowledge.example.com" },
  capabilities: {
    streaming: true,
    extensions: [{ uri: "urn:agentgateway:sbom", description: "Uses only its model", required: true }],
  },
})
  .skill("summarize", {
    name: "Summarize",
    description: "Summarizes a text and lists its key points",
    tags: ["summarization", "nlp"],
    examples: ["Summarize this article in three bullet points"],
    inputModes: ["text", "application/json"],
    outputModes: ["text", "application/json"],
    inputSchema: SummarizeRequest,
    outputSchema: SummarizeResponse,
  })
  .skill("extract_keywords", {
    name: "Extract keywords",
    description: "Finds important terms and phrases",
    tags: ["extraction", "nlp"],
    inputModes: ["text"],
    outputModes: ["application/json"],
    outputSchema: {
      type: "object",
      properties: {
        keywords: { type: "array", items: { type: "string" } },
        phrases: { type: "array", items: { type: "string" } },
      },
    },
  })
  .dependsOn();

// Tools

const researchAndSummarize = tool("research_and_summarize", "1.0.0", {
  description: "Research a topic and summarize the report; returns both",
  metadata: { tags: ["research"] },
  inputSchema: ResearchRequest,
  outputSchema: {
    type: "object",
    properties: { research: ResearchReport, executiveSummary: SummarizeResponse },
    required: ["research", "executiveSummary"],
  },
})
  .composition(
    pipeline(ResearchRequest)
      .step("research", researchAgent.skills.research_topic)
      .step("summarize", summarizerAgent.skills.summarize, ({ steps }) => ({
        content: steps.research.summary,
        style: "executive",
      }))
      .step("both", schemaMap({ research: "$.research", executiveSummary: "$.executiveSummary" }), ({ steps }) => ({
        research: steps.research,
        executiveSummary: steps.summarize,
      })),
  );

const shippingTrack = tool("shipping_track", "1.0.0", {
  description: "Get the status of a shipment",
  annotations: { readOnlyHint: true },
  metadata: { tags: ["orders"] },
  inputSchema: {
    type: "object",
    properties: {
      trackingNumber: { type: "string", description: "Tracking number of one shipment" },
      orderId: { type: "string", description: "Or all shipments of this order" },
    },
    additionalProperties: false,
  },
  outputSchema: {
    type: "object",
    properties: { shipments: { type: "array", items: Shipment } },
    required: ["shipments"],
  },
}).source(shippingService);

// Agents

const adkDemoAgent = agent("adk-demo-agent", "1.0.0", {
  description: "Demo of Google ADK: tasks, people and orders",
  url: "http://localhost:3000",
  protocolVersion: "0.2.1",
  defaultInputModes: ["text"],
  defaultOutputModes: ["text"],
  capabilities: {
    streaming: true,
    extensions: [{ uri: "urn:agentgateway:sbom", description: "Tools of this agent", required: true }],
  },
})
  .skill("orchestrate", {
    name: "Task orchestrator",
    description: "Manages tasks, informs people and processes orders",
    tags: ["tasks", "orchestration", "saga"],
    inputModes: ["text"],
    outputModes: ["text"],
  })
  .dependsOn(
    createTask,
    listTasks,
    completeTask,
    listUsers,
    getUser,
    searchUsersByBio,
    sendNotification,
    getNotifications,
    inventoryCheck,
    paymentAuthorize,
    shippingTrack,
    processOrder,
    multiSearch,
    createTaskAndNotify,
  );

const claudeDemoAgent = agent("claude-demo-agent", "1.0.0", {
  description: "Demo of the Claude Agent SDK: research and knowledge",
  url: "http://localhost:3000",
  protocolVersion: "0.2.1",
  defaultInputModes: ["text"],
  defaultOutputModes: ["text"],
  capabilities: {
    streaming: true,
    extensions: [{ uri: "urn:agentgateway:sbom", description: "Tools of this agent", required: true }],
  },
})
  .skill("research", {
    name: "Research assistant",
    description: "Researches topics, reads web pages, keeps documents and knowledge",
    tags: ["research", "documents", "knowledge-graph"],
    inputModes: ["text"],
    outputModes: ["text"],
  })
  .dependsOn(
    searchDocuments,
    createDocument,
    getDocument,
    listDocuments,
    createNote,
    fetch,
    getWebpage,
    getPageTitle,
    readGraph,
    createEntities,
    createRelations,
    getCurrentTime,
    fetchAndStore,
  );

const orchestratorAgent = agent("orchestrator-agent", "1.0.0", {
  description: "Delegates complex work to other agents",
  url: "http://orchestrator.internal:9002",
  protocolVersion: "0.2.1",
  defaultInputModes: ["text", "application/json"],
  defaultOutputModes: ["text", "application/json"],
  security: [{ bearer: [] }],
  securitySchemes: { bearer: { type: "http", scheme: "bearer" } },
  capabilities: {
    streaming: true,
    stateTransitionHistory: true,
    extensions: [{ uri: "urn:agentgateway:sbom", description: "Tools of this agent", required: true }],
  },
})
  .skill("complex_task", {
    name: "Complex task",
    description: "Plans a task of several steps and delegates them",
    tags: ["orchestration", "delegation", "planning"],
    inputModes: ["text", "application/json"],
    outputModes: ["text", "application/json"],
  })
  .dependsOn(
    researchAgent.skills.research_topic,
    summarizerAgent.skills.summarize,
    createTask,
    sendNotification,
    researchAndSummarize,
  );

// Servers

documentService.provides(searchDocuments, createDocument, getDocument, listDocuments);

inventoryService.provides(inventoryReserve, inventoryRelease, inventoryCheck);

memoryServer.provides(readGraph, createEntities, createRelations);

paymentService.provides(paymentCharge, paymentRefund, paymentAuthorize);

taskService.provides(createTask, listTasks, completeTask);

userService.provides(listUsers, getUser, searchUsersByBio);

export default registry([
  Address,
  CreateDocumentRequest,
  CreateTaskRequest,
  Document,
  FetchRequest,
  FetchedPage,
  KnowledgeEntity,
  KnowledgeRelation,
  Notification,
  OrderLine,
  OrderRequest,
  OrderResult,
  PageRequest,
  PaymentMethod,
  PaymentRequest,
  ResearchReport,
  ResearchRequest,
  Reservation,
  SearchFilters,
  SearchQuery,
  SearchResult,
  SearchResults,
  Shipment,
  SummarizeRequest,
  SummarizeResponse,
  Task,
  Transaction,
  User,
  documentService,
  fetchServer,
  inventoryService,
  memoryServer,
  notificationService,
  paymentService,
  shippingService,
  taskService,
  timeServer,
  userService,
  completeTask,
  createDocument,
  createEntities,
  createNote,
  createRelations,
  createTask,
  createTaskAndNotify,
  fetch,
  fetchAndStore,
  getCurrentTime,
  getDocument,
  getNotifications,
  getPageTitle,
  getUser,
  getWebpage,
  inventoryCheck,
  inventoryRelease,
  inventoryReserve,
  listDocuments,
  listTasks,
  listUsers,
  multiSearch,
  paymentAuthorize,
  paymentCharge,
  paymentRefund,
  processOrder,
  readGraph,
  researchAndSummarize,
  searchDocuments,
  searchUsersByBio,
  sendNotification,
  shippingCancel,
  shippingCreate,
  shippingTrack,
  adkDemoAgent,
  claudeDemoAgent,
  orchestratorAgent,
  researchAgent,
  summarizerAgent,
]);
